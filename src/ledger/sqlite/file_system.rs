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

/// Whether a log is safe beside the file. Not where that is not known.
#[cfg(target_os = "linux")]
pub(super) fn holds_log(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| u32::try_from(found.f_type).is_ok_and(is_local))
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
}
