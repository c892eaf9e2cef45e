//! Sockets between processes of one user on this machine.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::UnixListener;

use crate::os::unix::files::check_owner;

/// One end of a connection between two processes of this user.
pub type LocalStream = tokio::net::UnixStream;

/// The longest address of a socket that every system takes, in bytes.
const MAX_ADDRESS: usize = 100;
/// How long is waited when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(50);

/// A socket that other processes of this user come to; its file goes with it.
#[derive(Debug)]
pub struct LocalListener {
    listener: net::UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Listens at a path in a folder that is ours alone, so that nobody else comes there.
    ///
    /// # Errors
    ///
    /// When the path is too long for the system, and when the folder is not ours alone.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > MAX_ADDRESS {
            let long = format!("a socket's path has {MAX_ADDRESS} bytes at most");
            return Err(io::Error::new(ErrorKind::InvalidInput, long));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        check_owner(folder)?;
        let listener = net::UnixListener::bind(path)?;
        // From here on it is removed where something fails.
        let this = Self { listener, path: path.to_owned() };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        this.listener.set_nonblocking(true)?;
        Ok(this)
    }

    /// Takes connections of processes of this user for ever, each of which `serve` gets. Others are
    /// dropped.
    ///
    /// # Errors
    ///
    /// When the runtime cannot wait for it.
    pub async fn take(&self, mut serve: impl FnMut(LocalStream)) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => serve(stream),
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // Somebody may have removed it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the socket of a process of this user.
///
/// # Errors
///
/// When nobody listens there, and when who listens is somebody else's.
pub async fn connect_locally(path: &Path) -> io::Result<LocalStream> {
    let stream = LocalStream::connect(path).await?;
    if is_ours(&stream) {
        return Ok(stream);
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "the process that listens there is not ours"))
}

/// Removes a socket at which nobody listens any more.
pub fn remove_dead_socket(path: &Path) {
    let answer = net::UnixStream::connect(path);
    if answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        // Another process may have removed it.
        let _ = fs::remove_file(path);
    }
}

fn is_ours(stream: &LocalStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_goes_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = LocalListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let come = async {
            let _stream = connect_locally(&path).await.unwrap();
            std::future::pending::<()>().await;
        };
        let (told, came) = tokio::sync::oneshot::channel();
        let mut told = Some(told);
        let taking = listener.take(|_| {
            if let Some(told) = told.take() {
                told.send(()).unwrap();
            }
        });
        tokio::select! {
            _ = taking => panic!("it takes for ever"),
            () = come => unreachable!(),
            came = came => came.unwrap(),
        }
        remove_dead_socket(&path);
        assert!(path.exists(), "somebody listens");
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_removed_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let [path, file] = ["a.sock", "b.sock"].map(|name| folder.path().join(name));
        drop(net::UnixListener::bind(&path).unwrap());
        fs::write(&file, "x").unwrap();
        assert!(connect_locally(&path).await.is_err());
        remove_dead_socket(&path);
        assert!(!path.exists());
        remove_dead_socket(&folder.path().join("none"));
    }

    #[test]
    fn nobody_listens_where_others_may_write_or_the_path_is_too_long() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(LocalListener::bind(&folder.path().join("a.sock")).is_err());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let long = LocalListener::bind(&folder.path().join("x".repeat(200))).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
    }
}
