use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, mkfifoat};
use tempfile::TempDir;

use super::*;

/// A folder with a FIFO, a folder, a socket and a link to a file.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    mkfifoat(CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    fs::create_dir(at("folder")).unwrap();
    UnixListener::bind(at("socket")).unwrap();
    fs::write(at("file"), "text").unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("fifo"), at("link-to-fifo")).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const KINDS: [(&str, &str); 3] =
    [("fifo", "a FIFO"), ("folder", "a folder"), ("socket", "a socket")];

#[test]
fn own_files_are_regular_files_without_links() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let links = [("link", "a symbolic link"), ("link-to-fifo", "a symbolic link")];
    for mode in [OpenMode::Read, OpenMode::ReadShared, OpenMode::Append, OpenMode::Write] {
        for (name, kind) in KINDS.into_iter().chain(links) {
            let error = open_own(&at(name), mode).unwrap_err().to_string();
            let shown = at(name).display().to_string();
            assert_eq!(error, format!("`{shown}` is {kind}, not a regular file"), "{mode:?}");
        }
        let error = open_own(Path::new("/dev/null"), mode).unwrap_err().to_string();
        assert_eq!(error, "`/dev/null` is a device, not a regular file");
        open_own(&at("file"), mode).unwrap();
    }
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "text", "nothing is truncated");
    assert!(
        open_own(&at("absent"), OpenMode::Read)
            .is_err_and(|error| { error.kind() == ErrorKind::NotFound && !at("absent").exists() })
    );
}

#[test]
fn own_files_are_created_private() {
    let folder = tempfile::tempdir().unwrap();
    for (name, create) in [("log", OpenMode::Append), ("lock", OpenMode::Write)] {
        let path = folder.path().join(name);
        open_own(&path, create).unwrap();
        assert_eq!(mode(&path), 0o600);
    }
}

#[test]
fn own_files_that_others_can_write_are_not_read() {
    let folder = folder();
    let file = folder.path().join("file");
    for open in [0o602, 0o666] {
        fs::set_permissions(&file, Permissions::from_mode(open)).unwrap();
        let error = read_own(&file, 10).unwrap_err().to_string();
        assert_eq!(error, format!("other users can write to `{}`", file.display()));
    }
    for mode in [OpenMode::ReadShared, OpenMode::Append, OpenMode::Write] {
        open_own(&file, mode).unwrap();
    }
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(read_own(&file, 10).unwrap(), b"text");
}

#[test]
fn size_limits_are_exact() {
    let folder = folder();
    let file = folder.path().join("file");
    assert_eq!(read_own(&file, 4).unwrap(), b"text");
    assert_eq!(read_input(&file, 4).unwrap(), b"text");
    let error = read_input(&file, 3).unwrap_err().to_string();
    assert_eq!(error, "it is larger than 3 bytes");
    File::options().write(true).open(&file).unwrap().set_len((1 << 20) + 1).unwrap();
    let error = read_own(&file, 1 << 20).unwrap_err().to_string();
    assert_eq!(error, format!("`{}` is larger than 1 MiB", file.display()));
}

#[test]
fn input_follows_links_but_never_waits() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    assert_eq!(read_input_text(&at("link")).unwrap(), "text");
    for (name, kind) in KINDS.into_iter().chain([("link-to-fifo", "a FIFO")]) {
        let error = open_input(&at(name)).unwrap_err().to_string();
        assert_eq!(error, format!("it is {kind}, not a regular file"));
    }
    let error = open_input(Path::new("/dev/zero")).unwrap_err().to_string();
    assert_eq!(error, "it is a device, not a regular file");
    fs::write(at("binary"), [0xff]).unwrap();
    assert_eq!(read_input_text(&at("binary")).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn descriptors_are_input() {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"text").unwrap();
    drop(writer);
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    assert_eq!(read_input_text(Path::new(&path)).unwrap(), "text");
    for path in ["/dev/stdin", "/proc/self/fd/0", "/dev/fd/63"] {
        assert!(is_descriptor(Path::new(path)), "{path}");
    }
    for path in ["/dev/null", "dev/stdin", "/dev/fd/../zero", "/dev/fd", "/home/dev/fd/0"] {
        assert!(!is_descriptor(Path::new(path)), "{path}");
    }
}

#[test]
fn logs_are_private_and_wait_for_no_reader() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    open_log(&at("log")).unwrap().write_all(b"line\n").unwrap();
    open_log(&at("log")).unwrap().write_all(b"line\n").unwrap();
    assert_eq!((mode(&at("log")), fs::read(at("log")).unwrap().len()), (0o600, 10));
    let error = open_log(&at("fifo")).unwrap_err().to_string();
    assert_eq!(error, "it is a FIFO that no process reads");
    assert!(open_log(&at("folder")).is_err());
    let mut options = OpenOptions::new();
    native::set_guarded(options.read(true), true);
    let mut reader = options.open(at("fifo")).unwrap();
    let mut log = open_log(&at("fifo")).unwrap();
    log.write_all(b"line\n").unwrap();
    let mut line = [0; 5];
    reader.read_exact(&mut line).unwrap();
    assert_eq!(line, *b"line\n");
    open_log(Path::new("/dev/null")).unwrap();
}

#[test]
fn output_replaces_regular_files_only() {
    let folder = folder();
    let at = |name: &str| -> PathBuf { folder.path().join(name) };
    write_output(&at("link"), "new").unwrap();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
    write_output(&at("other"), "new").unwrap();
    for (name, kind) in KINDS.into_iter().chain([("link-to-fifo", "a FIFO")]) {
        let text = format!("it is {kind}, not a regular file");
        assert_eq!(write_output(&at(name), "new").unwrap_err().to_string(), text);
        assert_eq!(check_replaceable(&at(name)).unwrap_err().to_string(), text);
    }
    check_replaceable(&at("file")).unwrap();
    check_replaceable(&at("absent")).unwrap();
}
