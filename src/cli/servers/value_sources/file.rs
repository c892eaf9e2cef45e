//! Values read from files.

use std::io::{self, Read};
use std::path::Path;

use mcp_workbench_config::secret_values::{MAX_VALUE_BYTES, SecretError, SecretValue};
use mcp_workbench_settings::SecretRef;

/// Reads a value from a file.
///
/// # Errors
///
/// Fails if the file is missing or unreadable, is not a regular file, or holds no valid value.
pub(super) fn read_file(path: &Path) -> Result<SecretValue, SecretError> {
    let reference = SecretRef::File(path.to_owned());
    let failure = |error: &io::Error| {
        let (reason, hint) = match error.kind() {
            io::ErrorKind::NotFound => (
                format!("`{}` does not exist", path.display()),
                "check the path; relative paths start at the configuration's folder",
            ),
            io::ErrorKind::PermissionDenied => (
                format!("no permission to read `{}`", path.display()),
                "make it readable for the user that runs the workbench",
            ),
            _ => (
                format!("failed to read `{}`: {error}", path.display()),
                "use a file that contains only the value",
            ),
        };
        SecretError { reason, hint: hint.to_owned() }
    };
    let mut bytes = Vec::new();
    let file = mcp_workbench_os::open_input(path).map_err(|error| failure(&error))?;
    file.take(MAX_VALUE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failure(&error))?;
    let mut value = SecretValue::from_bytes(&reference, bytes)?;
    if mcp_workbench_os::can_others_read(path) {
        value.remark = Some(SecretError {
            reason: format!("other users can read `{}`", path.display()),
            hint: format!("restrict access: `chmod go-r {}`", path.display()),
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn file_readable_by_others_gets_a_remark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, "s3cret\n").unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        let remark = || {
            let value = read_file(&path).unwrap();
            value.remark.map(|remark| remark.reason)
        };
        set(folder.path(), 0o755).unwrap();
        set(&path, 0o600).unwrap();
        assert_eq!(remark(), None);
        set(&path, 0o644).unwrap();
        assert_eq!(remark(), Some(format!("other users can read `{}`", path.display())));
        // A private folder keeps other users out.
        set(folder.path(), 0o700).unwrap();
        assert_eq!(remark(), None);
    }

    #[test]
    fn reports_missing_and_non_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("token");
        let reason = read_file(&missing).unwrap_err().reason;
        assert_eq!(reason, format!("`{}` does not exist", missing.display()));
        let reason = read_file(folder.path()).unwrap_err().reason;
        assert_eq!(
            reason,
            format!(
                "failed to read `{}`: it is a folder, not a regular file",
                folder.path().display()
            )
        );
        let reason = read_file(Path::new("/dev/zero")).unwrap_err().reason;
        assert_eq!(reason, "failed to read `/dev/zero`: it is a device, not a regular file");
    }
}
