//! Identities of files, read without following links.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
#[cfg(target_os = "linux")]
use rustix::io::Errno;

/// Opens a file or folder for use as a handle. Fails with `ELOOP` or `ENOTDIR` if any part of the
/// path is a symbolic link, so the result can't depend on who wins a race.
#[cfg(target_os = "linux")]
pub(crate) fn open_without_links(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    use std::path::Component;

    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = openat(CWD, "/", flags, Mode::empty())?;
    for component in components {
        let Component::Normal(name) = component else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        file = openat(&file, name, flags, Mode::empty())?;
    }
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode).is_symlink() {
        return Err(Errno::LOOP.into());
    }
    Ok((file, stat))
}

/// Returns device and inode of an absolute path that has no links.
#[cfg(target_os = "linux")]
pub(crate) fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    let (_, stat) = open_without_links(path)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Returns device and inode of an absolute path that has no links. A link that is created between
/// the two steps isn't noticed: only Linux can open a path without following links.
#[cfg(not(target_os = "linux"))]
pub(crate) fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    if path.canonicalize()? != path {
        return Err(io::Error::other("the path contains a link"));
    }
    let metadata = path.symlink_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn identity_survives_renaming_and_ends_with_the_file() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.join(name));
        fs::create_dir(&one).unwrap();
        let identity = identity_of(&one).unwrap();
        fs::rename(&one, &other).unwrap();
        assert_eq!(identity_of(&other).unwrap(), identity);
        fs::create_dir(&one).unwrap();
        assert_ne!(identity_of(&one).unwrap(), identity);
    }

    #[test]
    fn paths_with_links_have_no_identity() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::create_dir_all(folder.join("real/inner")).unwrap();
        symlink(folder.join("real"), folder.join("link")).unwrap();
        assert!(identity_of(&folder.join("real/inner")).is_ok());
        for refused in ["link", "link/inner", "link/../real", "gone"] {
            assert!(identity_of(&folder.join(refused)).is_err(), "{refused}");
        }
        assert!(identity_of(Path::new("relative")).is_err());
    }
}
