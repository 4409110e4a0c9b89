//! What all pictures in SVG begin with, and how text stands in them.

use std::fmt;

use super::measure;
use super::outline::N;
use super::text::XmlText;

/// The fonts, the first that is there.
const FONT: &str = "Helvetica,Arial,Liberation Sans,sans-serif";

/// Begins a picture of this size, with its title.
pub(super) fn open(
    f: &mut fmt::Formatter<'_>,
    (width, height): (f64, f64),
    title: &str,
) -> fmt::Result {
    let (width, height) = (N(width.ceil()), N(height.ceil()));
    writeln!(
        f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"{FONT}\" xml:space=\"preserve\">"
    )?;
    writeln!(f, "<title>{}</title>", XmlText(title))
}

/// Writes lines of text below each other; `at` is above the first, in the middle or at its begin.
pub(super) fn text(
    f: &mut fmt::Formatter<'_>,
    lines: &[String],
    (x, y): (f64, f64),
    size: f64,
    attributes: &str,
    ink: &str,
) -> fmt::Result {
    for (number, line) in lines.iter().enumerate() {
        let y = y + (number as f64 * measure::LINE_HEIGHT + 0.97) * size;
        let blank = if attributes.is_empty() { "" } else { " " };
        writeln!(
            f,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{blank}{attributes} fill=\"{ink}\">{}</text>",
            N(x),
            N(y),
            N(size),
            XmlText(line)
        )?;
    }
    Ok(())
}
