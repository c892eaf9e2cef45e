#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

use super::*;

// invariant: thread-layout
#[test]
fn child_outlives_the_thread_that_requested_it() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let program = CommandSpec {
        name: "cat".into(),
        folder: "/".into(),
        has_input: true,
        ..CommandSpec::default()
    };
    let (mut process, thread) = thread::scope(|scope| {
        let wanting = || {
            let thread = fs::read_link("/proc/thread-self").unwrap();
            (runtime.block_on(start(program)).unwrap(), thread)
        };
        scope.spawn(wanting).join().unwrap()
    });
    // `join` can return before the kernel has killed the thread's children.
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
