#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

use super::*;
use crate::os::die_with_us;

#[test]
fn a_child_outlives_the_thread_that_wanted_it() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    #[expect(clippy::disallowed_methods, reason = "what is tested is how it is spawned")]
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    die_with_us(command.as_std_mut());
    let (mut process, thread) = thread::scope(|scope| {
        let wanting = || {
            let thread = fs::read_link("/proc/thread-self").unwrap();
            (runtime.block_on(start(command)).unwrap(), thread)
        };
        scope.spawn(wanting).join().unwrap()
    });
    // The kernel lets a thread be joined before it ends the thread's children.
    while Path::new("/proc").join(&thread).exists() {
        thread::yield_now();
    }
    runtime.block_on(async {
        let (stdin, stdout) = (process.child.stdin.take(), process.child.stdout.take());
        stdin.unwrap().write_all(b"still here").await.unwrap();
        let mut said = String::new();
        stdout.unwrap().read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "still here");
    });
}
