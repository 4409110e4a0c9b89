//! The outlines of nodes in SVG: how much room they leave for text, and how they are drawn.

use std::fmt;

use super::layout::{Node, Rim};
use super::look::Shape;

/// What cut corners, roofs, tabs, folds and sides take.
const CUT: f64 = 12.0;
const CORNER: f64 = 9.0;
const ROOF: f64 = 12.0;
const TAB: f64 = 6.0;
const FOLD: f64 = 9.0;
const SIDE: f64 = 6.0;

/// The distance of the inner of two lines.
pub(super) const DOUBLE: f64 = 3.5;

/// The radius of the start and the end.
pub(super) const RADIUS: f64 = 18.0;

/// A number with one place behind the point, if it needs that.
pub(super) struct N(pub(super) f64);

impl fmt::Display for N {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round();
        // No negative zero.
        write!(f, "{}", if tenths == 0.0 { 0.0 } else { tenths / 10.0 })
    }
}

impl Shape {
    /// A node of this shape around a text of this size, wide enough for so many wires at one side.
    pub(super) fn around(self, (width, height): (f64, f64), double: bool, wires: usize) -> Node {
        let (wide, high) = match self {
            Shape::Circle | Shape::DoubleCircle => {
                // Where many wires meet, the circle is drawn out to both sides.
                let out = 6.0 * wires.saturating_sub(3) as f64;
                let (ports, rim) = match wires {
                    ..4 => (RADIUS * 0.6, Rim::Round),
                    _ => (out + 6.0, Rim::Level),
                };
                return Node {
                    width: 2.0 * (RADIUS + out),
                    height: 2.0 * RADIUS,
                    ports,
                    rim,
                };
            }
            Shape::Hexagon => (2.0 * CUT, 0.0),
            Shape::Octagon => (CORNER, 0.0),
            Shape::Funnel => (2.0 * CUT, 0.0),
            Shape::Tabs => (2.0 * TAB, 0.0),
            Shape::Note => (FOLD, 0.0),
            Shape::House => (0.0, ROOF),
            Shape::Block => (SIDE, SIDE),
            Shape::Rounded | Shape::Box => (0.0, 0.0),
        };
        let double = if double { 2.0 * DOUBLE } else { 0.0 };
        let span = 12.0 * wires.saturating_sub(1).min(24) as f64;
        let width = (width + 22.0 + wide + double)
            .max(span + 2.0 * CUT + 8.0)
            .max(62.0);
        let height = (height + 14.0 + high + double).max(34.0);
        let (inset, rim) = match self {
            Shape::Hexagon => (CUT, Rim::Point(CUT)),
            Shape::Funnel => (CUT, Rim::Level),
            Shape::Octagon => (CORNER, Rim::Level),
            Shape::House => (8.0, Rim::Roof(ROOF)),
            Shape::Note => (FOLD, Rim::Level),
            Shape::Block => (SIDE + 2.0, Rim::Level),
            Shape::Tabs => (2.0 * TAB, Rim::Level),
            _ => (8.0, Rim::Level),
        };
        Node {
            width,
            height,
            ports: width / 2.0 - inset - 2.0,
            rim,
        }
    }

    /// Where the middle of the text is, from the middle of the node.
    pub(super) fn text(self) -> (f64, f64) {
        match self {
            Shape::House => (0.0, ROOF / 2.0),
            Shape::Block => (-SIDE / 2.0, SIDE / 2.0),
            Shape::Tabs => (TAB, 0.0),
            _ => (0.0, 0.0),
        }
    }

    /// The outline around a middle as the data of a path.
    pub(super) fn path(self, (x, y): (f64, f64), width: f64, height: f64) -> String {
        let (w, h) = (width / 2.0, height / 2.0);
        let (left, right, top, bottom) = (x - w, x + w, y - h, y + h);
        match self {
            Shape::Circle | Shape::DoubleCircle => {
                let (r, one, other) = (N(h), N(left + h), N(right - h));
                let (top, bottom) = (N(top), N(bottom));
                format!(
                    "M{one} {top}H{other}A{r} {r} 0 0 1 {other} {bottom}H{one}A{r} {r} 0 0 1 {one} {top}Z"
                )
            }
            Shape::Rounded => {
                let r = h.min(14.0);
                let arc = |x: f64, y: f64| format!("A{} {} 0 0 1 {} {}", N(r), N(r), N(x), N(y));
                format!(
                    "M{} {}H{}{}V{}{}H{}{}V{}{}Z",
                    N(left + r),
                    N(top),
                    N(right - r),
                    arc(right, top + r),
                    N(bottom - r),
                    arc(right - r, bottom),
                    N(left + r),
                    arc(left, bottom - r),
                    N(top + r),
                    arc(left + r, top),
                )
            }
            Shape::Hexagon => polygon(&[
                (left + CUT, top),
                (right - CUT, top),
                (right, y),
                (right - CUT, bottom),
                (left + CUT, bottom),
                (left, y),
            ]),
            Shape::Octagon => polygon(&[
                (left + CORNER, top),
                (right - CORNER, top),
                (right, top + CORNER),
                (right, bottom - CORNER),
                (right - CORNER, bottom),
                (left + CORNER, bottom),
                (left, bottom - CORNER),
                (left, top + CORNER),
            ]),
            Shape::Funnel => polygon(&[
                (left, top),
                (right, top),
                (right - CUT, bottom),
                (left + CUT, bottom),
            ]),
            Shape::House => polygon(&[
                (x, top),
                (right, top + ROOF),
                (right, bottom),
                (left, bottom),
                (left, top + ROOF),
            ]),
            Shape::Note => polygon(&[
                (left, top),
                (right - FOLD, top),
                (right, top + FOLD),
                (right, bottom),
                (left, bottom),
            ]),
            Shape::Block => polygon(&[
                (left, top + SIDE),
                (left + SIDE, top),
                (right, top),
                (right, bottom - SIDE),
                (right - SIDE, bottom),
                (left, bottom),
            ]),
            Shape::Tabs => polygon(&[
                (left + TAB, top),
                (right, top),
                (right, bottom),
                (left + TAB, bottom),
            ]),
            Shape::Box => polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)]),
        }
    }

    /// The inner of two outlines.
    pub(super) fn inner_path(self, (x, y): (f64, f64), width: f64, height: f64) -> String {
        let (width, height) = (width - 2.0 * DOUBLE, height - 2.0 * DOUBLE);
        match self {
            // The front of the block.
            Shape::Block => {
                let middle = (x - SIDE / 2.0, y + SIDE / 2.0);
                Shape::Box.path(middle, width - SIDE, height - SIDE)
            }
            _ => self.path((x, y), width, height),
        }
    }

    /// Lines inside of the outline that make the shape what it is.
    pub(super) fn details(self, (x, y): (f64, f64), width: f64, height: f64) -> Option<String> {
        let (w, h) = (width / 2.0, height / 2.0);
        let (left, right, top, bottom) = (x - w, x + w, y - h, y + h);
        match self {
            Shape::Tabs => {
                let tab = |y: f64| {
                    polygon(&[
                        (left, y - 3.5),
                        (left + 2.0 * TAB, y - 3.5),
                        (left + 2.0 * TAB, y + 3.5),
                        (left, y + 3.5),
                    ])
                };
                Some(tab(y - h * 0.4) + &tab(y + h * 0.4))
            }
            Shape::Note => Some(format!(
                "M{} {}V{}H{}",
                N(right - FOLD),
                N(top),
                N(top + FOLD),
                N(right)
            )),
            Shape::Block => Some(format!(
                "M{} {}H{}L{} {}M{} {}V{}",
                N(left),
                N(top + SIDE),
                N(right - SIDE),
                N(right),
                N(top),
                N(right - SIDE),
                N(top + SIDE),
                N(bottom),
            )),
            _ => None,
        }
    }
}

fn polygon(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (number, (x, y)) in points.iter().enumerate() {
        path.push(if number == 0 { 'M' } else { 'L' });
        path.push_str(&format!("{} {}", N(*x), N(*y)));
    }
    path + "Z"
}
