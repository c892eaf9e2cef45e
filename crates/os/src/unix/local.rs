//! Unix sockets between processes of one user on this machine.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::net::UnixListener;

use crate::unix::files::check_private_dir;

/// One end of a connection between two processes of this user.
pub type LocalStream = tokio::net::UnixStream;

/// The longest socket path, in bytes, that every system accepts.
const MAX_ADDRESS: usize = 100;
/// The delay after a failed `accept`, such as when no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// A listening Unix socket for processes of this user. Its file is removed on drop.
#[derive(Debug)]
pub struct LocalListener {
    listener: net::UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Listens at a path in a folder that only this user can write to.
    ///
    /// # Errors
    ///
    /// Returns an error if the path is longer than 100 bytes, or another user can write to the
    /// folder.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() > MAX_ADDRESS {
            let long = format!("socket path longer than {MAX_ADDRESS} bytes");
            return Err(io::Error::new(ErrorKind::InvalidInput, long));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        check_private_dir(folder)?;
        let listener = net::UnixListener::bind(path)?;
        // From here on, an error removes the socket file.
        let this = Self { listener, path: path.to_owned() };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        this.listener.set_nonblocking(true)?;
        Ok(this)
    }

    /// Passes each connection from a process of this user to `serve`, forever. Connections from
    /// other users are dropped.
    ///
    /// # Errors
    ///
    /// Returns an error if the listener can't be registered with the runtime.
    pub async fn serve(&self, mut serve: impl FnMut(LocalStream)) -> io::Result<()> {
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
        // Another process may have removed the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to the socket of a process of this user.
///
/// # Errors
///
/// Returns an error if no process listens there, or it belongs to another user.
pub async fn connect_locally(path: &Path) -> io::Result<LocalStream> {
    let stream = LocalStream::connect(path).await?;
    if is_ours(&stream) {
        return Ok(stream);
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        "the listening process belongs to another user",
    ))
}

/// Returns the PID of the process that listens on a socket, as reported by the kernel.
///
/// # Errors
///
/// Returns an error if no process of this user listens there.
pub async fn listening_process(path: &Path) -> io::Result<u32> {
    let peer = connect_locally(path).await?.peer_cred()?;
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    pid.ok_or_else(|| io::Error::other("the kernel does not report the process"))
}

/// Removes a socket file that no process listens on any more.
pub fn remove_dead_socket(path: &Path) {
    let answer = net::UnixStream::connect(path);
    if answer.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
        // Another process may have removed the file.
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
    async fn socket_is_private_and_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = LocalListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let come = async {
            assert_eq!(listening_process(&path).await.unwrap(), std::process::id());
            let _stream = connect_locally(&path).await.unwrap();
            std::future::pending::<()>().await;
        };
        let (told, came) = tokio::sync::oneshot::channel();
        let mut told = Some(told);
        let taking = listener.serve(|_| {
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
        assert!(path.exists(), "the socket has a listener");
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn only_dead_sockets_are_removed() {
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
    fn bind_rejects_writable_folders_and_long_paths() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(LocalListener::bind(&folder.path().join("a.sock")).is_err());
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let long = LocalListener::bind(&folder.path().join("x".repeat(200))).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
    }
}
