//! Which file systems may hold a write-ahead log.
//!
//! # Reference
//!
//! All processes share the log's index as memory that is mapped from a file
//! (<https://www.sqlite.org/wal.html>: "WAL does not work over a network filesystem"). SQLite does
//! not ask: on NFS it takes the log, and two machines then write over each other.

use std::path::Path;

/// By the number that `statfs` gives: file systems of one machine, whose mapped files are memory
/// that its processes share.
#[cfg(target_os = "linux")]
const LOCAL: [(u32, &str); 12] = [
    (0xef53, "ext2, ext3, ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "f2fs"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x3434, "nilfs2"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    // A container's: its upper layer is one of those above.
    (0x794c_7630, "overlay"),
];

/// Whether a log is safe next to the file. Not where that is not known, nor where the file may have
/// another name in another directory, by a hard link or since it is mounted by itself: each name
/// would have a log of its own.
#[cfg(target_os = "linux")]
pub(super) fn holds_log(path: &Path) -> bool {
    let is_local =
        rustix::fs::statfs(path).is_ok_and(|found| u32::try_from(found.f_type).is_ok_and(is_local));
    is_local && has_one_name(path)
}

/// Whether the file has one name, as far as this process sees.
#[cfg(target_os = "linux")]
fn has_one_name(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let mounts = std::fs::read_to_string("/proc/self/mountinfo");
    let (Ok(file), Ok(mounts), Some(directory)) = (path.metadata(), mounts, path.parent()) else {
        return false;
    };
    let is_mounted = mounts.lines().any(|line| is_mounted_at(line, path));
    let is_near = directory
        .metadata()
        .is_ok_and(|directory| directory.dev() == file.dev());
    file.nlink() == 1 && is_near && !is_mounted
}

/// Whether a line of `mountinfo` names this place, in its fifth field. Blanks are octal there.
#[cfg(target_os = "linux")]
fn is_mounted_at(line: &str, path: &Path) -> bool {
    let place = line.split(' ').nth(4).unwrap_or_default();
    let octal = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let place = octal.iter().fold(place.to_owned(), |place, (code, sign)| {
        place.replace(code, sign)
    });
    Path::new(&place) == path
}

#[cfg(not(target_os = "linux"))]
pub(super) fn holds_log(_: &Path) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn is_local(number: u32) -> bool {
    LOCAL.iter().any(|(local, _)| *local == number)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_log_needs_a_disk_of_this_machine() {
        for (number, name) in LOCAL {
            assert!(is_local(number), "{name}");
        }
        let others = [
            (0x6969, "nfs"),
            (0xff53_4d42, "cifs"),
            (0xfe53_4d42, "smb2"),
            (0x517b, "smb"),
            (0x6573_5546, "fuse, virtiofs"),
            (0x0102_1997, "9p"),
            (0x00c3_6400, "ceph"),
            (0x5346_414f, "afs"),
            (0x7461_636f, "ocfs2"),
            (0x0116_1970, "gfs2"),
            (0x0bd0_0bd0, "lustre"),
            (0x786f_4256, "vboxsf"),
            (0x9fa0, "proc"),
            (0, "unknown"),
        ];
        for (number, name) in others {
            assert!(!is_local(number), "{name}");
        }
        assert!(!holds_log(Path::new("/proc/self")), "asked of the kernel");
        assert!(!holds_log(Path::new("/no/such/file")));
    }

    /// Each of two names would have a log of its own.
    #[test]
    fn a_file_of_two_names_has_no_log() {
        let name = format!("pgveil-names-{:x}", rand::random::<u64>());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let (one, other) = (directory.join("one"), directory.join("other"));
        std::fs::write(&one, "").unwrap();
        assert!(has_one_name(&one));
        std::fs::hard_link(&one, &other).unwrap();
        assert!(!has_one_name(&one) && !has_one_name(&other));
        std::fs::remove_dir_all(&directory).unwrap();
        let line = "36 35 98:0 /l.db /srv/a\\040b/l.db rw,noatime - ext4 /dev/vda rw";
        assert!(is_mounted_at(line, Path::new("/srv/a b/l.db")));
        assert!(!is_mounted_at(line, Path::new("/srv/a b")));
    }
}
