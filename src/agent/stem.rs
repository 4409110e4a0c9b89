//! Cuts the endings off English words.
//!
//! In comes a lower-case word, out goes the form that it shares with its relatives: `connection`,
//! `connections`, `connecting` and `connected` all give `connect`. Light on purpose: it undoes
//! plurals, `-ed`, `-ing`, `-ion` and a last `e`, and never touches a word that is not plain
//! letters, so identifiers and numbers stay as they are.

/// The shortest stem that may be left when an ending is cut.
const SHORTEST: usize = 3;

/// Cuts the endings off one lower-case word.
pub(super) fn stem(word: &mut String) {
    if word.len() <= SHORTEST || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return;
    }
    plural(word);
    let cut = cut_verb_ending(word);
    if !cut {
        cut_ion(word);
    }
    if word.len() > SHORTEST && word.ends_with('e') {
        word.pop();
    }
    if word.len() > SHORTEST && word.ends_with('y') {
        word.pop();
        word.push('i');
    }
}

fn plural(word: &mut String) {
    if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if ["sses", "xes", "ches", "shes", "zes"]
        .iter()
        .any(|end| word.ends_with(end))
    {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
}

/// Cuts `-ing` and `-ed` when a syllable is left; says whether it did.
fn cut_verb_ending(word: &mut String) -> bool {
    let Some(rest) = ["ing", "ed"]
        .iter()
        .find_map(|end| word.strip_suffix(end).map(str::len))
    else {
        return false;
    };
    if rest < SHORTEST || !word[..rest].bytes().any(is_vowel) {
        return false;
    }
    word.truncate(rest);
    let tail = word.as_bytes();
    let (last, before) = (tail[rest - 1], tail[rest - 2]);
    if rest > SHORTEST && last == before && !is_vowel(last) && !matches!(last, b'l' | b's' | b'z') {
        word.pop();
    }
    true
}

/// Cuts `-ion` after `s` or `t`, so that `replication` meets `replicate`.
fn cut_ion(word: &mut String) {
    if let Some(rest) = word.strip_suffix("ion")
        && rest.len() > SHORTEST + 1
        && (rest.ends_with('t') || rest.ends_with('s'))
    {
        word.truncate(word.len() - 3);
    }
}

fn is_vowel(byte: u8) -> bool {
    matches!(byte, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(word: &str) -> String {
        let mut word = word.to_owned();
        stem(&mut word);
        word
    }

    #[test]
    fn relatives_share_a_stem() {
        for family in [
            &[
                "connect",
                "connects",
                "connected",
                "connecting",
                "connection",
                "connections",
            ][..],
            &["replicate", "replicated", "replicating", "replication"],
            &["index", "indexes", "indexed", "indexing"],
            &["query", "queries"],
            &["drop", "dropped", "dropping", "drops"],
            &["database", "databases"],
            &["install", "installed", "installs"],
        ] {
            for word in family {
                assert_eq!(of(word), of(family[0]), "{word}");
            }
        }
    }

    #[test]
    fn words_that_only_look_alike_stay_apart() {
        assert_ne!(of("port"), of("portion"));
        assert_ne!(of("bus"), of("bu"));
        assert_eq!(of("string"), "string");
        assert_eq!(of("need"), "need");
        assert_eq!(of("access"), "access");
    }

    #[test]
    fn identifiers_and_other_scripts_are_left_alone() {
        assert_eq!(of("max_connections"), "max_connections");
        assert_eq!(of("128mbs"), "128mbs");
        assert_eq!(of("größes"), "größes");
    }
}
