//! The driver.
