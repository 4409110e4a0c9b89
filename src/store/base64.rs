//! Bytes as text and back: base64 as RFC 4648 has it, with padding.
//!
//! Each sequence of bytes has one text, and no other text is read: what was read is written again
//! as it was.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// The text of bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(group);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(char::from(if place > three.len() { PAD } else { digit }));
        }
    }
    text
}

/// The bytes of a text; none if it is the text of no bytes.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (number, group) in groups.iter().enumerate() {
        let digits = match group {
            [_, _, PAD, PAD] => 2,
            [_, _, _, PAD] => 3,
            _ => 4,
        };
        if digits < 4 && number + 1 < groups.len() {
            return None;
        }
        let mut bits = 0;
        for (place, digit) in group[..digits].iter().enumerate() {
            bits |= value(*digit)? << (18 - 6 * place);
        }
        let [_, three @ ..] = bits.to_be_bytes();
        let (kept, over) = three.split_at(digits - 1);
        if over.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_the_standard_says() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"fooba", "Zm9vYmE="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xfb, 0xff, 0xfe], "+//+"),
        ] {
            assert_eq!(encode(bytes), text);
            assert_eq!(decode(text).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn every_text_that_is_read_is_written_again_as_it_was() {
        let digits: Vec<u8> = DIGITS.iter().copied().chain([PAD, b' ', b'-']).collect();
        for group in 0..digits.len().pow(3) {
            let digit = |place: u32| digits[group / digits.len().pow(place) % digits.len()];
            for text in [
                vec![b'Z', digit(0), digit(1), digit(2)],
                vec![b'Z', b'm', b'8', b'=', b'Z', digit(0), digit(1), digit(2)],
            ] {
                let text = String::from_utf8(text).expect("it is ASCII");
                if let Some(bytes) = decode(&text) {
                    assert_eq!(encode(&bytes), text);
                }
            }
        }
        for wrong in [
            "Z", "Zg", "Zg=", "====", "Zh==", "Zg==Zg==", "Zm9v\n", "Zgé",
        ] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
