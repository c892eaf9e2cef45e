use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

#[test]
fn sandbox_homes_are_unique_for_any_server_name() {
    let homes = Path::new("/homes");
    let all: BTreeSet<_> =
        ["a", "a/", "../a", "é", "", "A", "b"].map(|name| home_of(homes, name)).into();
    assert_eq!(all.len(), 7);
    assert!(all.iter().all(|home| home.parent() == Some(homes)));
}

#[test]
fn option_like_program_name_follows_the_separator() {
    let usr = PinnedPath::from_parts("/usr".into(), "8:2").unwrap();
    let cell = SandboxRules { read: vec![usr], has_network: true, ..SandboxRules::default() };
    let variables = [("LD_X".into(), "-v".into())].into();
    let arguments =
        arguments(&cell, variables, OsStr::new("--x"), ["--read".as_ref(), "y".as_ref()]);
    let rules = ["cell", "--read", "/usr", "8:2", "--variable", "LD_X", "-v", "--network"];
    assert_eq!(arguments, [&rules[..], &["--", "--x", "--read", "y"]].concat());
}

#[test]
fn homes_are_private_folders_and_never_links() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let [home, planted, shared] =
        ["homes/a", "homes/planted", "homes/shared"].map(|name| folder.join(name));
    let made = make_home(&home).unwrap();
    assert_eq!(made.pinned.path(), home);
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    make_home(&home).unwrap();

    fs::create_dir(folder.join("private")).unwrap();
    symlink(folder.join("private"), &planted).unwrap();
    assert!(make_home(&planted).is_err());
    assert!(!folder.join("private/tmp").exists());
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    assert!(make_home(&shared).is_err());
}

#[test]
fn planted_temporary_folder_is_replaced() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let home = folder.join("homes/a");
    let temporary = make_home(&home).unwrap().temporary;
    fs::remove_dir(&temporary).unwrap();
    symlink(&folder, &temporary).unwrap();
    make_home(&home).unwrap();
    assert!(temporary.symlink_metadata().unwrap().is_dir());
}
