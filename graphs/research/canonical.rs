//! Canonical ids: one name for one source, however it is written.
//!
//! In comes the address of a page or the path of a file, out goes the id under which its note is
//! kept, so that one source gives one note (S007). It never asks a disk or a network whether the
//! source exists.

use std::path::{Component, Path};

/// The canonical form of an address or a path.
///
/// - The fragment goes, and with it a slash at the end.
/// - Scheme and host of an address are put in lower case; its path keeps its case.
/// - In a path, `\` becomes `/`, and `.` and `..` are worked out; it never leads out of its root.
pub fn canonical_id(written: &str) -> String {
    let written = written.trim();
    let written = written.split('#').next().unwrap_or_default();
    if let Some((scheme, rest)) = written.split_once("://") {
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(at);
        let path = path.trim_end_matches('/');
        return format!("{}://{}{path}", scheme.to_lowercase(), host.to_lowercase());
    }
    let slashed = written.replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in slashed.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The id of a file by its path below the folder; `None` when the path is not UTF-8.
///
/// Characters that have a meaning in an id or in a report are percent-encoded, so that each file
/// has an id of its own and [`path_of`] finds it again.
pub(super) fn id_of(relative: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for component in relative.components() {
        if let Component::Normal(part) = component {
            parts.push(encode(part.to_str()?));
        }
    }
    Some(parts.join("/"))
}

/// The path below the folder that an id stands for; `None` when the id could lead elsewhere.
pub(super) fn path_of(id: &str) -> Option<std::path::PathBuf> {
    let mut path = std::path::PathBuf::new();
    for part in id.split('/') {
        let part = decode(part)?;
        let mut components = Path::new(&part).components();
        match (components.next(), components.next()) {
            (Some(Component::Normal(name)), None) if name.to_str() == Some(&part) => {
                path.push(name);
            }
            _ => return None,
        }
    }
    Some(path)
}

fn encode(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for c in part.chars() {
        if c.is_control() || matches!(c, '#' | '%' | '\\' | '`' | '<' | '>' | '[' | ']') {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_has_one_id_however_it_is_written() {
        assert_eq!(canonical_id("http://x/a"), "http://x/a");
        assert_eq!(canonical_id("HTTP://X/a/#f"), "http://x/a");
        assert_eq!(canonical_id("http://x/b"), "http://x/b");
        assert_eq!(canonical_id("http://X/B"), "http://x/B");
        assert_eq!(canonical_id("./guide\\start.md#first"), "guide/start.md");
        assert_eq!(canonical_id("guide/../../start.md"), "start.md");
    }

    #[test]
    fn a_file_is_found_again_by_its_id() {
        for name in [
            "a/b.md",
            "a/c#1.md",
            "100%.txt",
            "x[1]`.html",
            "übersicht.md",
        ] {
            let id = id_of(Path::new(name)).unwrap();
            assert_eq!(path_of(&id).unwrap(), Path::new(name), "{id}");
            assert_eq!(canonical_id(&id), id);
        }
    }

    #[test]
    fn an_id_never_leads_out_of_its_folder() {
        for id in [
            "../a",
            "/etc/passwd",
            "a/%2E%2E/b",
            "a%2Fb",
            "",
            "a//b",
            "%FF",
            "%2",
        ] {
            assert_eq!(path_of(id), None, "{id}");
        }
    }
}
