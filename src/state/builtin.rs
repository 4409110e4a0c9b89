//! The built-in reducers.
