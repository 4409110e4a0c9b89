//! What does not compile, and what the compiler says. The messages are pinned to the toolchain.

#[test]
fn what_cannot_be_right_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
