//! How a node can be left.

/// The ways in which a node can be left. Made by `#[derive(Exits)]` on an enum without data.
///
/// The node says how it left; the graph's `match` says where that leads. `()` is the one exit of
/// a node that has no choice.
///
/// ```
/// use milepost::Exits;
///
/// #[derive(Clone, Copy, Exits)]
/// enum AfterModel {
///     CallTools,
///     Answered,
/// }
///
/// assert_eq!(AfterModel::ALL.len(), 2);
/// assert_eq!(AfterModel::CallTools.label(), "CallTools");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how a node can be left",
    label = "this is not an enum of exits",
    note = "add `#[derive(Clone, Copy, Exits)]` to the enum"
)]
pub trait Exits: Copy + Send + Sync + 'static {
    /// Every exit, in declaration order; at least one.
    const ALL: &'static [Self];

    /// The exit's place in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// The exit's name, as it stands on the edge of a picture and in records.
    fn label(self) -> &'static str;
}

impl Exits for () {
    const ALL: &'static [Self] = &[()];

    fn index(self) -> usize {
        0
    }

    fn label(self) -> &'static str {
        ""
    }
}
