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
    let registry = GrantRegistry::new(Some(&folder.join("homes")));
    let made = make_home(&home, &registry).unwrap();
    assert_eq!(made.pinned.path(), home);
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    make_home(&home, &registry).unwrap();

    fs::create_dir(folder.join("private")).unwrap();
    symlink(folder.join("private"), &planted).unwrap();
    assert!(make_home(&planted, &registry).is_err());
    assert!(!folder.join("private/tmp").exists());
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o777)).unwrap();
    assert!(make_home(&shared, &registry).is_err());
}

#[test]
fn planted_temporary_folder_is_replaced() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let home = folder.join("homes/a");
    let registry = GrantRegistry::new(Some(&folder.join("homes")));
    let temporary = make_home(&home, &registry).unwrap().temporary;
    fs::remove_dir(&temporary).unwrap();
    symlink(&folder, &temporary).unwrap();
    make_home(&home, &registry).unwrap();
    assert!(temporary.symlink_metadata().unwrap().is_dir());
}

#[test]
fn homes_are_not_behind_a_link_that_a_server_can_change() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    fs::create_dir_all(folder.join("disk/cache")).unwrap();
    fs::create_dir(folder.join("victim")).unwrap();
    // The user's own link to another disk is followed.
    symlink(folder.join("disk/cache"), folder.join("cache")).unwrap();
    let home = folder.join("cache/homes/a");
    let write = |path: &str| {
        let registry = GrantRegistry::new(Some(&folder.join("cache/homes")));
        registry.learn_writable([folder.join(path)]);
        registry
    };
    for path in ["cache", "disk/cache", "disk"] {
        make_home(&home, &write(path)).unwrap();
    }
    let homes = folder.join("disk/cache/homes");
    fs::rename(&homes, homes.with_extension("old")).unwrap();
    symlink(folder.join("victim"), &homes).unwrap();
    for path in ["disk/cache", "disk"] {
        let error = make_home(&home, &write(path)).err().unwrap();
        assert!(error.reason.contains("leads through the link"), "{}", error.reason);
    }
    assert_eq!(fs::read_dir(folder.join("victim")).unwrap().count(), 0);
}
