//! Owners and permissions of files and folders.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};

const ROOT: u32 = 0;

/// Makes the options create files with mode 0600.
pub fn set_private_mode(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Opens FIFOs without waiting for the other end, and terminals without making them the controlling
/// one. Without `follows_links`, fails if the last component of the path is a link.
pub(crate) fn set_guarded(options: &mut OpenOptions, follows_links: bool) {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !follows_links);
    options.custom_flags(flags.bits().cast_signed());
}

/// Makes writes to a FIFO or device wait, after an `open` that didn't.
pub(crate) fn set_blocking(file: &File) -> io::Result<()> {
    Ok(fcntl_setfl(file, fcntl_getfl(file)? - OFlags::NONBLOCK)?)
}

pub(crate) fn is_fifo(metadata: &Metadata) -> bool {
    metadata.file_type().is_fifo()
}

/// Returns the kind of a file that is neither a regular file, a folder nor a link.
pub(crate) fn special_kind(metadata: &Metadata) -> &'static str {
    match metadata.file_type() {
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}

/// Checks that a file belongs to this user, root or the owner of `folder`. Without a folder, also
/// checks that no other user can write to it. Root can use files of all users.
pub fn check_owner(metadata: &Metadata, folder: Option<&Path>, subject: &str) -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    let owns_folder = || folder.and_then(|f| f.metadata().ok()).is_some_and(|f| f.uid() == owner);
    if !may_use_files_of(user, owner) && !owns_folder() {
        return Err(io::Error::other(format!("{subject} belongs to user {owner}")));
    }
    if folder.is_none() && is_open(metadata) {
        return Err(io::Error::other(format!("other users can write to {subject}")));
    }
    Ok(())
}

fn may_use_files_of(user: u32, owner: u32) -> bool {
    user == owner || [user, owner].contains(&ROOT)
}

/// Returns `true` if users other than the owner have write access. A group with the owner's id
/// counts as the user's private group.
fn is_open(metadata: &Metadata) -> bool {
    let group = if metadata.gid() == metadata.uid() { 0 } else { 0o020 };
    metadata.mode() & (0o002 | group) != 0
}

/// Creates a folder and its missing parents with mode 0700. An existing folder keeps its mode.
pub fn make_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Checks that this user owns a folder and no other user can write to it.
pub fn check_private_dir(folder: &Path) -> io::Result<()> {
    let metadata = folder.metadata()?;
    let (owner, shown) = (metadata.uid(), folder.display());
    if owner != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("`{shown}` belongs to user {owner}")));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!("other users can write to `{shown}`")));
    }
    Ok(())
}

/// Returns `true` if users other than the owner can write to or replace a file.
///
/// A group with the owner's id counts as the user's private group. In a sticky folder, only owners
/// can replace files. Returns `false` if the file can't be examined.
pub fn is_writable_by_others(file: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    let may_replace = |folder: Metadata| folder.mode() & STICKY == 0 && is_open(&folder);
    file.metadata().is_ok_and(|metadata| is_open(&metadata))
        || file.parent().is_some_and(|folder| folder.metadata().is_ok_and(may_replace))
}

/// Returns `true` if users other than the owner can read a file and enter its folder. A group with
/// the owner's id counts as the user's private group, as in [`is_writable_by_others`].
pub fn can_others_read(file: &Path) -> bool {
    let may = |metadata: &Metadata, everybody: u32, group: u32| {
        let group = if metadata.gid() == metadata.uid() { 0 } else { group };
        metadata.mode() & (everybody | group) != 0
    };
    let Ok(file) = file.canonicalize() else { return false };
    let folder = file.parent().and_then(|folder| folder.metadata().ok());
    file.metadata().is_ok_and(|metadata| may(&metadata, 0o004, 0o040))
        && folder.is_none_or(|metadata| may(&metadata, 0o001, 0o010))
}

/// Returns `true` if a private key is readable by users other than its owner.
///
/// A file that belongs to root may be readable by its group: containers get keys that way. A folder
/// that others can't enter also protects the key.
pub fn is_private_key_exposed(file: &Path) -> bool {
    let Ok(path) = file.canonicalize() else { return false };
    let Ok(metadata) = path.metadata() else { return false };
    let is_roots_group = metadata.uid() == ROOT && metadata.mode() & 0o004 == 0;
    !is_roots_group && can_others_read(file)
}

/// Returns `true` if both are metadata of one file, even under different names.
pub fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Checks that a path is a file that this process can execute.
pub fn check_executable(path: &Path) -> Result<(), ErrorKind> {
    if !path.is_file() {
        return Err(ErrorKind::NotFound);
    }
    access(path, Access::EXEC_OK).map_err(|_| ErrorKind::PermissionDenied)
}

/// Returns the permissions that all of these files grant; `None` for an empty list, or if one of
/// them can't be examined.
pub fn strictest_permissions(files: &[&Path]) -> Option<Permissions> {
    let modes = files.iter().map(|file| {
        let metadata = fs::metadata(file).ok()?;
        Some(metadata.permissions().mode() & 0o777)
    });
    let mode = modes.reduce(|all, mode| Some(all? & mode?))??;
    Some(Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn private_files_and_folders_exclude_other_users() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a/b");
        make_private_folder(&folder).unwrap();
        make_private_folder(&folder).unwrap();
        assert_eq!([mode(&folder), mode(&parent.path().join("a"))], [0o700; 2]);
        check_private_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o720)).unwrap();
        assert!(check_private_dir(&folder).is_err(), "writable by the group");
        let file = folder.join("file");
        set_private_mode(File::options().write(true).create_new(true)).open(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn files_of_other_users_are_not_used() {
        assert!(may_use_files_of(1000, 1000) && may_use_files_of(1000, ROOT));
        assert!(may_use_files_of(ROOT, 1000));
        assert!(!may_use_files_of(1000, 1001) && !may_use_files_of(65534, 1000));
    }

    #[test]
    fn writable_or_replaceable_files_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        File::create(&file).unwrap();
        let is_open = |of_folder: u32, of_file: u32| {
            fs::set_permissions(folder.path(), Permissions::from_mode(of_folder)).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(of_file)).unwrap();
            is_writable_by_others(&file)
        };
        assert!(is_open(0o755, 0o646) && is_open(0o757, 0o644));
        assert!(!is_open(0o755, 0o644) && !is_open(0o1757, 0o644));
        let metadata = fs::metadata(&file).unwrap();
        assert_eq!(is_open(0o755, 0o664), metadata.gid() != metadata.uid());
    }

    #[test]
    fn strictest_permissions_are_the_common_mode_bits() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["one", "other"].map(|name| folder.path().join(name));
        for (path, mode) in paths.iter().zip([0o750, 0o644]) {
            File::create(path).unwrap().set_permissions(Permissions::from_mode(mode)).unwrap();
        }
        let [one, other] = paths.each_ref().map(std::path::PathBuf::as_path);
        let strictest = |files: &[&Path]| strictest_permissions(files).map(|found| found.mode());
        assert_eq!(strictest(&[one, other]), Some(0o640));
        assert_eq!(strictest(&[one]), Some(0o750));
        assert_eq!(strictest(&[one, &folder.path().join("absent")]), None);
        assert_eq!(strictest(&[]), None);
    }

    #[test]
    fn hard_links_are_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let [one, link, other] = ["one", "link", "other"].map(|name| folder.path().join(name));
        File::create(&one).unwrap();
        File::create(&other).unwrap();
        fs::hard_link(&one, &link).unwrap();
        let [one, link, other] = [one, link, other].map(|path| fs::metadata(path).unwrap());
        assert!(is_same_file(&one, &link) && !is_same_file(&one, &other));
    }

    #[test]
    fn only_executable_files_are_programs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        assert_eq!(check_executable(&file), Err(ErrorKind::NotFound));
        assert_eq!(check_executable(folder.path()), Err(ErrorKind::NotFound));
        File::create(&file).unwrap().set_permissions(Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check_executable(&file), Err(ErrorKind::PermissionDenied));
        fs::set_permissions(&file, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(check_executable(&file), Ok(()));
    }
}
