//! Pictures: what is written is what others read.
//!
//! DOT is read back by a parser of another crate and by Graphviz itself, Mermaid by its own
//! parser, SVG by a parser of XML. Graphviz must be there where `CI` is set; Mermaid's parser where `.ci/run` has put it.

mod dot;
mod error_exits;
mod geometry;
mod graphs;
#[cfg(feature = "sled")]
mod inside;
mod joins;
mod mermaid;
#[cfg(feature = "sled")]
mod overlay;
mod read;
mod svg;
#[cfg(feature = "sled")]
mod timeline;

/// The text as it stands in `tests/data/pictures`; written anew where `MILEPOST_BLESS` is set.
fn golden(name: &str, text: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/pictures")
        .join(name);
    if std::env::var_os("MILEPOST_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "{} differs; look at it, then run again with MILEPOST_BLESS=1\n{text}",
        file.display()
    );
}
