//! The definitions and commands that register a service with each platform's service manager.

use std::path::{Path, PathBuf};

use crate::authoring::service::{ServiceManager, UserService};

/// The description that service managers show.
const TITLE: &str = "MCP Workbench: shared MCP servers for all clients of this user";

impl UserService {
    /// Returns the path of the definition file, in the user's `home` or below the `configuration`
    /// directory.
    pub fn definition_file(&self, home: &Path, configuration: &Path) -> Option<PathBuf> {
        match self.manager {
            ServiceManager::Systemd => Some(configuration.join("systemd/user").join(&self.name)),
            ServiceManager::Launchd => {
                let label = self.label();
                Some(home.join("Library/LaunchAgents").join(format!("{label}.plist")))
            }
            ServiceManager::TaskScheduler => {
                Some(configuration.join("mcp-workbench").join("service.task.xml"))
            }
            ServiceManager::Unmanaged => None,
        }
    }

    /// Returns the launchd label: the name without a domain such as `gui/501`.
    fn label(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Renders the definition file. The service gets the variables in `environment`, in addition to
    /// those of the service manager. A task of Windows has the user's environment instead.
    pub fn definition(&self, config: &Path, environment: &[(String, String)]) -> Option<String> {
        let words = self.command_line(config);
        match self.manager {
            ServiceManager::Systemd => Some(unit(&words, &self.program, config, environment)),
            ServiceManager::Launchd => Some(plist(self.label(), &words, environment)),
            ServiceManager::TaskScheduler => Some(scheduled_task(&words)),
            ServiceManager::Unmanaged => None,
        }
    }

    /// Returns the commands that start the service, now and at each login.
    pub fn enable_commands(&self, file: &Path) -> Vec<Vec<String>> {
        let (name, file) = (self.name.as_str(), file.display().to_string());
        let domain = name.rsplit_once('/').map_or("", |(domain, _)| domain);
        match self.manager {
            ServiceManager::Systemd => vec![
                words(&["systemctl", "--user", "daemon-reload"]),
                words(&["systemctl", "--user", "enable", "--now", name]),
            ],
            ServiceManager::Launchd => vec![words(&["launchctl", "bootstrap", domain, &file])],
            ServiceManager::TaskScheduler => vec![
                words(&["schtasks", "/create", "/tn", name, "/xml", &file, "/f"]),
                words(&["schtasks", "/run", "/tn", name]),
            ],
            ServiceManager::Unmanaged => Vec::new(),
        }
    }
}

/// Returns the commands that stop the service and unregister it.
pub fn disable_commands(manager: ServiceManager, name: &str) -> Vec<Vec<String>> {
    match manager {
        ServiceManager::Systemd => vec![words(&["systemctl", "--user", "disable", "--now", name])],
        ServiceManager::Launchd => vec![words(&["launchctl", "bootout", name])],
        ServiceManager::TaskScheduler => vec![
            words(&["schtasks", "/end", "/tn", name]),
            words(&["schtasks", "/delete", "/tn", name, "/f"]),
        ],
        ServiceManager::Unmanaged => Vec::new(),
    }
}

/// Returns the command to run after the definition file was removed, if the service manager needs
/// one.
pub fn reload_command(manager: ServiceManager) -> Option<Vec<String>> {
    (manager == ServiceManager::Systemd).then(|| words(&["systemctl", "--user", "daemon-reload"]))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn unit(
    words: &[String],
    program: &str,
    config: &Path,
    environment: &[(String, String)],
) -> String {
    let line =
        |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let reload = [program, "--config", &config.display().to_string(), "reload"].map(str::to_owned);
    let environment: Vec<String> = environment
        .iter()
        // `$` is literal in `Environment=`.
        .map(|(name, value)| quoted(&format!("{name}={value}")).replace("$$", "$"))
        .map(|variable| format!("Environment={variable}\n"))
        .collect();
    format!(
        "# Written by `mcp-workbench setup --service`; `mcp-workbench setup undo` removes it.\n\
         [Unit]\n\
         Description={TITLE}\n\
         After=network.target\n\
         \n\
         [Service]\n\
         ExecStart={}\n\
         ExecReload={}\n\
         {}\
         Restart=on-failure\n\
         # The workbench stops its servers itself; remaining processes are killed.\n\
         KillMode=mixed\n\
         TimeoutStopSec=30\n\
         UMask=0077\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        line(words),
        line(&reload),
        environment.concat(),
    )
}

/// Quotes a word of a systemd command line.
fn quoted(word: &str) -> String {
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' => text.push_str("%%"),
            '$' => text.push_str("$$"),
            '\n' => text.push_str("\\n"),
            _ => text.push(c),
        }
    }
    text.push('"');
    text
}

fn plist(label: &str, words: &[String], environment: &[(String, String)]) -> String {
    let words: Vec<String> =
        words.iter().map(|word| format!("    <string>{}</string>\n", escaped(word))).collect();
    let words = words.concat();
    let environment: Vec<String> = environment
        .iter()
        .map(|(name, value)| {
            let (name, value) = (escaped(name), escaped(value));
            format!("    <key>{name}</key>\n    <string>{value}</string>\n")
        })
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <!-- Written by `mcp-workbench setup`; `mcp-workbench setup undo` removes it. -->\n\
         <plist version=\"1.0\">\n\
         <dict>\n\
         \x20 <key>Label</key>\n  <string>{}</string>\n\
         \x20 <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n\
         \x20 <key>EnvironmentVariables</key>\n  <dict>\n{}  </dict>\n\
         \x20 <key>RunAtLoad</key>\n  <true/>\n\
         \x20 <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  \
         </dict>\n\
         \x20 <key>Umask</key>\n  <integer>63</integer>\n\
         </dict>\n\
         </plist>\n",
        escaped(label),
        environment.concat(),
    )
}

/// Renders a Windows task that starts at login.
fn scheduled_task(words: &[String]) -> String {
    let program = words.first().map_or("", String::as_str);
    let rest = words.get(1..).unwrap_or_default().iter();
    let rest: Vec<String> = rest.map(|word| format!("\"{word}\"")).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Task version=\"1.2\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\">\n\
         \x20 <RegistrationInfo>\n    <Description>{TITLE}</Description>\n  </RegistrationInfo>\n\
         \x20 <Triggers>\n    <LogonTrigger>\n      <Enabled>true</Enabled>\n    </LogonTrigger>\n  \
         </Triggers>\n\
         \x20 <Principals>\n    <Principal id=\"Author\">\n      \
         <LogonType>InteractiveToken</LogonType>\n      <RunLevel>LeastPrivilege</RunLevel>\n    \
         </Principal>\n  </Principals>\n\
         \x20 <Settings>\n    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>\n    \
         <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>\n    \
         <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>\n    \
         <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>\n    <Hidden>true</Hidden>\n  </Settings>\n\
         \x20 <Actions Context=\"Author\">\n    <Exec>\n      <Command>{}</Command>\n      \
         <Arguments>{}</Arguments>\n    </Exec>\n  </Actions>\n\
         </Task>\n",
        escaped(program),
        escaped(&rest.join(" ")),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
