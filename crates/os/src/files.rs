//! Opens files that another program could have replaced.
//!
//! Opening a FIFO blocks until another process opens its other end, a link leads to a file of the
//! creator's choice, and in a shared folder another user can create the file first. So the program
//! opens files only with these functions (test `files_are_opened_in_one_place`).
//!
//! - The program's **own** files (logins, tool lists, logs, audit): regular files of this user.
//! - **Input** that people edit or name, such as configurations: also links, because dotfile
//!   managers create them, and file descriptors such as `/dev/stdin`.
//! - **Output** at a path that the user gave.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};

use parking_lot::Mutex;

use crate::native;

/// Maximum size of an input file in bytes, unless its reader has a lower limit.
pub const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// How [`open_own`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Read a file whose content decides something, so other users can't have write access.
    Read,
    /// Read a file next to the audit log. Its folder can be on a file system without owners and
    /// modes, such as a network drive.
    ReadShared,
    /// Read and append. Creates a missing file with mode 0600.
    Append,
    /// Write to or lock. Creates a missing file with mode 0600, and doesn't truncate.
    Write,
}

/// Opens one of the program's own files.
///
/// # Errors
///
/// Fails if the path leads to a link or isn't a regular file, or if the file belongs to another
/// user. In mode [`OpenMode::Read`], also fails if other users can write to it; in other modes, the
/// owner of the folder can own the file. Root can open files of all users: check the folder with
/// [`crate::check_private_dir`] if the content decides something.
pub fn open_own(path: &Path, mode: OpenMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match mode {
        OpenMode::Read | OpenMode::ReadShared => options.read(true),
        OpenMode::Append => options.read(true).append(true).create(true),
        OpenMode::Write => options.write(true).create(true).truncate(false),
    };
    native::set_private_mode(&mut options);
    native::set_guarded(&mut options, false);
    let shown = format!("`{}`", path.display());
    let file =
        options.open(path).map_err(|error| explain(error, path.symlink_metadata(), &shown))?;
    let metadata = file.metadata()?;
    check_regular(&metadata, &shown)?;
    let folder = path.parent().filter(|_| mode != OpenMode::Read);
    native::check_owner(&metadata, folder, &shown)?;
    Ok(file)
}

/// Reads one of the program's own files of at most `max` bytes; see [`open_own`].
pub fn read_own(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_own(path, OpenMode::Read)?, max, &format!("`{}`", path.display()))
}

/// Opens a file that a person wrote or named. Follows links, and waits only for file descriptors of
/// this process, such as `/dev/stdin` or a shell's `<(command)`.
///
/// # Errors
///
/// Fails if the path leads to a folder, FIFO, socket or device.
pub fn open_input(path: &Path) -> io::Result<File> {
    if is_descriptor(path) {
        return File::open(path);
    }
    let mut options = OpenOptions::new();
    native::set_guarded(options.read(true), true);
    let file = options.open(path).map_err(|error| explain(error, path.metadata(), "it"))?;
    check_regular(&file.metadata()?, "it")?;
    Ok(file)
}

/// Reads an input file of at most `max` bytes; see [`open_input`].
///
/// A pipe can be read only once, so later calls return what the first one has read.
pub fn read_input(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    static PIPES: Mutex<BTreeMap<PathBuf, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let file = open_input(path)?;
    if file.metadata()?.is_file() {
        return read_bounded(file, max, "it");
    }
    let mut pipes = PIPES.lock();
    if let Some(known) = pipes.get(path) {
        return Ok(known.clone());
    }
    let content = read_bounded(file, max, "it")?;
    pipes.insert(path.to_owned(), content.clone());
    Ok(content)
}

/// Reads an input file of at most [`MAX_INPUT_BYTES`] as UTF-8; see [`open_input`].
pub fn read_input_text(path: &Path) -> io::Result<String> {
    let bytes = read_input(path, MAX_INPUT_BYTES)?;
    let invalid = |_| io::Error::new(ErrorKind::InvalidData, "it is not valid UTF-8");
    String::from_utf8(bytes).map_err(invalid)
}

/// Opens a log file that the user named, for appending. Creates a missing file with mode 0600.
/// Accepts devices, and FIFOs that another process reads.
///
/// # Errors
///
/// Fails if the path leads to a folder, or to a FIFO that no process reads.
pub fn open_log(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    native::set_private_mode(options.append(true).create(true));
    native::set_guarded(&mut options, true);
    let file = options.open(path).map_err(|error| match path.metadata() {
        Ok(found) if native::is_fifo(&found) => {
            io::Error::new(error.kind(), "it is a FIFO that no process reads")
        }
        _ => error,
    })?;
    native::set_blocking(&file)?;
    Ok(file)
}

/// Writes a file that the user named. Follows links, and replaces the content of an existing file.
///
/// # Errors
///
/// Fails if the path leads to something other than a regular file.
pub fn write_output(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    native::set_guarded(options.write(true).create(true).truncate(false), true);
    let mut file = options.open(path).map_err(|error| explain(error, path.metadata(), "it"))?;
    check_regular(&file.metadata()?, "it")?;
    file.set_len(0)?;
    file.write_all(content.as_ref())
}

/// Checks that nothing but a regular file is at a path that a new file is about to replace.
pub fn check_replaceable(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(metadata) => check_regular(&metadata, "it"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns `true` for a file descriptor of this process, which only this process can provide.
fn is_descriptor(path: &Path) -> bool {
    let parts: Option<Vec<&str>> = path
        .components()
        .map(|part| match part {
            Component::RootDir => Some("/"),
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    matches!(
        parts.as_deref(),
        Some(["/", "dev", "stdin"] | ["/", "dev", "fd", _] | ["/", "proc", "self", "fd", _])
    )
}

/// Replaces the error of an `open` that failed because of the kind of file at the path.
fn explain(error: io::Error, found: io::Result<Metadata>, subject: &str) -> io::Error {
    found.ok().and_then(|found| check_regular(&found, subject).err()).unwrap_or(error)
}

fn check_regular(metadata: &Metadata, subject: &str) -> io::Result<()> {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a symbolic link",
        _ => native::special_kind(metadata),
    };
    Err(io::Error::other(format!("{subject} is {kind}, not a regular file")))
}

fn read_bounded(file: File, max: u64, subject: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let limit = match max {
            0x10_0000.. => format!("{} MiB", max >> 20),
            _ => format!("{max} bytes"),
        };
        return Err(io::Error::other(format!("{subject} is larger than {limit}")));
    }
    Ok(bytes)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
