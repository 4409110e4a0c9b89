//! The flags of `run review`.

use std::fs;
use std::path::PathBuf;

use milepost::cli::{Input, InputError};

use super::{Review, ReviewUpdate};

/// Review the links of Markdown files, section by section
#[derive(Debug, Clone, clap::Args)]
pub struct ReviewArgs {
    /// The files, as many as there are
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
}

impl Input for ReviewArgs {
    type State = Review;

    fn input(self) -> Result<ReviewUpdate, InputError> {
        let whole = |file: PathBuf| {
            // A resume from another folder must find the same files.
            let whole = fs::canonicalize(&file)
                .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
            let name = whole.to_str().map(str::to_owned);
            name.ok_or_else(|| format!("the name of {} is not UTF-8", file.display()))
        };
        let files: Result<Vec<_>, String> = self.files.into_iter().map(whole).collect();
        Ok(Review::update().files(files?))
    }

    fn result(review: &Review) -> Option<String> {
        review.report.clone()
    }
}
