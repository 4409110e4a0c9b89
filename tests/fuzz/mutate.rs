//! Changes of bytes, the same for the same number.

/// Numbers without a pattern.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below another; 0 where there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// What lengths and counts are, where somebody means harm.
const EXTREMES: &[u64] = &[
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0xffff,
    1 << 20,
    (64 << 20) - 1,
    64 << 20,
    (64 << 20) + 1,
    i32::MAX as u64,
    u32::MAX as u64,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// A sound input, changed a few times; `other` is one to splice with.
pub(crate) fn mutate(dice: &mut Dice, sound: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    for _ in 0..=dice.below(3) {
        change(dice, &mut bytes, other);
    }
    bytes
}

fn change(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = dice.below(bytes.len());
    match dice.below(10) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        2 if !bytes.is_empty() => bytes[at] = dice.roll() as u8,
        3 => bytes.truncate(at),
        4 => {
            // Two of them, joined somewhere.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[dice.below(other.len())..]);
        }
        5 => {
            let extreme = dice.one(EXTREMES).to_le_bytes();
            write(bytes, at, &extreme[..*dice.one(&[1, 2, 4, 8])]);
        }
        6 => {
            // As MessagePack has them.
            let extreme = dice.one(EXTREMES).to_be_bytes();
            write(bytes, at, &extreme[*dice.one(&[7, 6, 4, 0])..]);
        }
        7 => {
            let len = dice.below((bytes.len() - at).min(64));
            let chunk = bytes[at..at + len].repeat(1 + dice.below(4));
            bytes.splice(at..at, chunk);
        }
        8 => {
            let end = at + dice.below((bytes.len() - at).min(32));
            bytes.drain(at..end);
        }
        _ => {
            let noise: Vec<u8> = (0..dice.below(9)).map(|_| dice.roll() as u8).collect();
            bytes.splice(at..at, noise);
        }
    }
}

fn write(bytes: &mut [u8], at: usize, what: &[u8]) {
    for (into, byte) in bytes[at..].iter_mut().zip(what) {
        *into = *byte;
    }
}

#[test]
fn a_change_is_the_same_for_the_same_number() {
    let of = |seed| mutate(&mut Dice::new(seed), b"some sound bytes", b"and others");
    let all: Vec<_> = (0..200).map(of).collect();
    assert_eq!(all, (0..200).map(of).collect::<Vec<_>>());
    let changed = all.iter().filter(|bytes| *bytes != b"some sound bytes");
    assert!(changed.count() > 150);
}
