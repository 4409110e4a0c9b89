//! The derives of milepost.
