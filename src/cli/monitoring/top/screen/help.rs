//! The texts of the footer and of the help.

pub(super) const SERVER_KEYS: &str =
    " o start  s stop  r restart  m pause  Tab calls  / filter  ? help  q quit";
pub(super) const CALL_KEYS: &str =
    " ↑↓ select  Enter whole error  Tab servers  / filter  ? help  q quit";

pub(super) const KEYS: &str = "\
↑ ↓ j k     select; PgUp PgDn Home End jump further
Tab         switch between servers and calls
o Enter     start the server, or all servers of the toolbox
s           stop it; it starts again on demand
r           restart it
m           pause or resume it; a paused server does not start
l           sign in to the server: shows the URL to open
a           show the calls that wait for an approval
Enter       on a call: show why it failed
/           filter by name; Esc clears the filter
?           what the words on the screen mean
q Ctrl-C    quit

Actions affect all agents that share the server's process.
Press ? for the words, or any other key.";

pub(super) const WORDS: &str = "\
First line of a workbench: the name and version that each client reports,
then configuration, address, process and memory.

State         stopped  starts at the next call
              paused   starts only after m, which resumes it
              sign-in  needs a sign-in: press l
              drift    its definitions differ from workbench.lock
              blocked  the same, and the configuration blocks it
Memory        of all processes of the server
Tools         that agents can use
Tokens        estimated size of the definitions of these tools
Calls         finished since top or the dashboard was first opened
Errors        failed ones among them; cancelled calls don't count
p95 ms        95 % of them took at most this long
in flight     calls without a response yet
tokens saved  definitions that the clients would have loaded from the
              servers, minus those that the workbench sent to them

A call: age, outcome, duration, tool, client, size of arguments → result.
Press any key.";
