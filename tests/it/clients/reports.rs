//! The client of docs/local.md makes the reports that pgveil reads: its code runs as it stands
//! there, with a secret and random words that are given.

use hmac::{Hmac, KeyInit, Mac};
use pgveil::mechanism::{RandomError, Randomness, Rappor};
use sha2::Sha256;
use tokio::process::Command;

const SECRET: &[u8] = b"a secret of thirty-two bytes, so";
const VALUES: [(u32, &str); 4] = [(0, "/"), (3, "/Überblick"), (63, "it's"), (7, "")];

/// Words of a counter.
struct Words(u64);

impl Randomness for Words {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Ok(self.0)
    }
}

/// The block of Python in the document.
fn example() -> String {
    let text = std::fs::read_to_string("docs/local.md").unwrap();
    let (_, rest) = text.split_once("```python\n").unwrap();
    let (code, _) = rest.split_once("```").unwrap();
    code.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_client_agrees_with_the_encoder() {
    let rappor = Rappor {
        bits: 128,
        hashes: 2,
        cohorts: 64,
        f: 0.5,
        p: 0.5,
        q: 0.75,
    };
    let mut random = Words(0);
    let mut wanted = String::new();
    for (cohort, value) in VALUES {
        let word = |place: u32| -> Result<u64, ()> {
            let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
            // Half of 1/2 of 2^64, in the place of f.
            let label = format!("web.visits.page|128|2|{}|{cohort}", 1u64 << 62);
            mac.update(&(label.len() as u32).to_be_bytes());
            mac.update(label.as_bytes());
            mac.update(&place.to_be_bytes());
            mac.update(value.as_bytes());
            let digest = mac.finalize().into_bytes();
            Ok(u64::from_be_bytes(digest[..8].try_into().unwrap()))
        };
        let kept = rappor.permanent((cohort, value), word).unwrap();
        let report = rappor.report(&kept, &mut random).unwrap();
        let digits = |bits: &[bool]| -> String {
            bits.iter()
                .map(|bit| if *bit { '1' } else { '0' })
                .collect()
        };
        wanted += &format!(
            "{:?} {} {}\n",
            rappor.places(cohort, value),
            digits(&kept),
            digits(&report)
        );
    }
    let words = "
class Words:
    at = 0
    def next(self, bits):
        assert bits == 64
        self.at = (self.at + 0x9e3779b97f4a7c15) % 2**64
        return self.at
secrets.randbits = Words().next
";
    let secret = String::from_utf8(SECRET.to_vec()).unwrap();
    let mut code = format!("{}{words}", example());
    for (cohort, value) in VALUES {
        code += &format!(
            "kept = permanent(b\"{secret}\", {cohort}, {value:?})\nprint(sorted(places({cohort}, \
                {value:?})), ''.join(str(int(bit)) for bit in kept), report(kept))\n"
        );
    }
    // Another column, another cohort and other numbers have other coins.
    code += &format!(
        "
F = 1.0
def coins(cohort=0):
    return permanent(b\"{secret}\", cohort, '/')[:64]
first = coins()
assert first == coins() and first != coins(1)
for name, other in [('COLUMN', 'web.visits.word'), ('BITS', 64), ('HASHES', 3)]:
    known = globals()[name]
    globals()[name] = other
    assert first != coins(), name
    globals()[name] = known
"
    );
    let run = Command::new("python3").args(["-c", &code]).output().await;
    let Ok(output) = run else {
        eprintln!("python3 cannot be had");
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted);
}
