//! `history`: the checkpoints of a thread, as a table or as a tree of branches.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::args::HistoryArgs;
use super::exit::{Exit, Failure};
use super::laid::many;
use super::line::Line;
use super::list::head;
use super::out::{cut, one_line};
use super::shell::Shell;
use super::when::{ago, date};
use crate::store::Head;
use crate::{Checkpoint, Seq};

/// No column is made narrower than this.
const NARROW: usize = 12;

/// Lists the checkpoints of a thread.
pub(super) async fn history(shell: &mut Shell, args: &HistoryArgs) -> Result<Exit, Failure> {
    let store = shell.look()?;
    let head = head(shell, &*store, &args.thread).await?;
    let mut line = crate::history(&*store, &args.thread).await?;
    let all = line.len();
    if !args.all && !args.tree {
        let own = Line::to(&line, head.seq, head.branch);
        line.retain(|at| own.has(at.branch, at.seq));
    }
    for at in &line {
        let counts = |nodes: &[(String, u32)]| -> Vec<_> {
            nodes
                .iter()
                .map(|(node, tasks)| json!({"node": node, "tasks": tasks}))
                .collect()
        };
        shell.out.value(&json!({
            "seq": at.seq.get(),
            "parent": at.parent.map(Seq::get),
            "branch": at.branch.get(),
            "step": at.step.get(),
            "input": at.input.as_ref().map(crate::RunId::as_str),
            "at_ms": at.at_ms,
            "ran": counts(&at.ran),
            "wrote": at.wrote,
            "next": counts(&at.next),
            "status": at.status.to_string(),
            "patched": at.patched,
        }));
    }
    let width = width(shell);
    let rows = match args.tree {
        true => tree(&line, head.seq),
        false => table(&line, &head, width),
    };
    for row in rows {
        shell.out.say(cut(&row, width));
    }
    if line.len() < all {
        let others = many(all - line.len(), "checkpoint", "checkpoints");
        let next = shell.on("history --all", &args.thread);
        let told = format!("{others} of other branches are not listed\n  next: {next}");
        shell.out.say(told);
    }
    Ok(Exit::Done)
}

/// So wide a table may be; one for a program or a file may be as wide as it is.
fn width(shell: &Shell) -> usize {
    match io::stdout().is_terminal() {
        true => shell.out.size().0,
        false => usize::MAX,
    }
}

/// A line for each checkpoint, with the names of the columns above them.
fn table(line: &[Checkpoint], head: &Head, width: usize) -> Vec<String> {
    let branched = line.iter().any(|at| at.branch != head.branch);
    let row = |at: &Checkpoint, short: bool| {
        let mut row = vec![at.seq.to_string(), at.step.to_string()];
        if branched {
            row.push(at.branch.get().to_string());
        }
        let when = match short {
            true => ago(at.at_ms),
            false => format!("{} ({})", date(at.at_ms), ago(at.at_ms)),
        };
        // How it went on from the last one, no checkpoint knows yet.
        let status = match at.seq == head.seq {
            true => head.status,
            false => at.status,
        };
        row.extend([when, ran(at), wrote(at), next(at), status.to_string()]);
        row
    };
    let mut names = vec!["seq", "superstep"];
    if branched {
        names.push("branch");
    }
    names.extend(["when", "ran", "wrote", "next", "status"]);
    let names: Vec<_> = names.into_iter().map(str::to_owned).collect();
    let rows = |short: bool| -> Vec<_> {
        let rows = line.iter().map(|at| row(at, short));
        [names.clone()].into_iter().chain(rows).collect()
    };
    let whole = rows(false);
    match total(&widths(&whole)) <= width {
        true => aligned(&whole, width),
        // Half a date says nothing.
        false => aligned(&rows(true), width),
    }
}

/// How wide each column has to be.
fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(row.len(), 0);
        for (wide, cell) in widths.iter_mut().zip(row) {
            *wide = cell.width().max(*wide);
        }
    }
    widths
}

/// How wide columns are together, with what is between them.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)
}

/// Rows with their columns below each other. The widest ones are cut until all fit.
fn aligned(rows: &[Vec<String>], width: usize) -> Vec<String> {
    let mut widths = widths(rows);
    while total(&widths) > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROW => *widest -= 1,
            _ => break,
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<_> = cells
            .map(|(column, (cell, wide))| {
                let cell = cut(cell, *wide);
                let pad = " ".repeat(wide - cell.width().min(*wide));
                match column {
                    // Numbers stand at the right.
                    0 | 1 => pad + &cell,
                    _ => cell + &pad,
                }
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The checkpoints as a tree: one line goes straight down, and what leaves it is set in, behind the
/// checkpoint that it leaves.
fn tree(line: &[Checkpoint], head: Seq) -> Vec<String> {
    let mut roots = Vec::new();
    let mut children: BTreeMap<Seq, Vec<&Checkpoint>> = BTreeMap::new();
    for at in line {
        // A parent comes before its child, so each is drawn once, whatever the records say.
        let parent = at.parent.filter(|parent| *parent < at.seq);
        let is_there = |seq: &Seq| line.binary_search_by_key(seq, |at| at.seq).is_ok();
        match parent.filter(is_there) {
            Some(parent) => children.entry(parent).or_default().push(at),
            None => roots.push(at),
        }
    }
    let mut lines = Vec::new();
    // What is not drawn yet, the next one last: with what stands left of it and above it.
    let mut open: Vec<(&Checkpoint, String, Option<String>)> = Vec::new();
    open.extend(
        roots
            .into_iter()
            .rev()
            .map(|root| (root, String::new(), None)),
    );
    while let Some((at, rails, above)) = open.pop() {
        lines.extend(above);
        let here = match at.seq == head {
            true => " (the thread stands here)",
            false => "",
        };
        lines.push(format!(
            "{rails}● {}{here}  superstep {}  {}  → {}  wrote {}  {}",
            at.seq,
            at.step,
            ran(at),
            next(at),
            wrote(at),
            date(at.at_ms)
        ));
        let children = children.remove(&at.seq).unwrap_or_default();
        let (on, away): (Vec<_>, Vec<_>) = children
            .into_iter()
            .partition(|child| child.branch == at.branch);
        let goes_on = !on.is_empty();
        open.extend(on.into_iter().map(|child| (child, rails.clone(), None)));
        for (place, child) in away.iter().enumerate().rev() {
            let (corner, rail) = match goes_on || place + 1 < away.len() {
                true => ("├─", "│ "),
                false => ("└─", "  "),
            };
            let above = format!("{rails}{corner} branch {}", child.branch);
            open.push((child, format!("{rails}{rail}"), Some(above)));
        }
    }
    lines
}

/// What a checkpoint closes: the nodes that ran, or an input.
fn ran(at: &Checkpoint) -> String {
    match &at.input {
        Some(run) => format!("input of run {}", one_line(run.as_str())),
        None if at.patched => format!("patch as {}", nodes(&at.ran)),
        None => nodes(&at.ran),
    }
}

fn wrote(at: &Checkpoint) -> String {
    match at.wrote.as_slice() {
        [] => "nothing".to_owned(),
        wrote => one_line(&wrote.join(", ")),
    }
}

fn next(at: &Checkpoint) -> String {
    match at.next.as_slice() {
        [] => "end".to_owned(),
        next => nodes(next),
    }
}

fn nodes(nodes: &[(String, u32)]) -> String {
    let nodes = nodes.iter().map(|(node, tasks)| match tasks {
        1 => one_line(node),
        n => format!("{} ×{n}", one_line(node)),
    });
    nodes.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_give_way_first_and_names_keep_their_place() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let long = "a long list of names that were written";
        let rows = [
            row(["seq", "superstep", "wrote", "next"]),
            row(["12", "3", long, "日本"]),
        ];
        let whole = aligned(&rows, usize::MAX);
        assert_eq!(whole[1], format!(" 12          3  {long}  日本"));
        assert_eq!(whole[0].find("next"), Some(16 + long.len() + 2));
        for line in aligned(&rows, 50) {
            assert!(line.width() <= 50, "{line}");
        }
        assert!(aligned(&rows, 50)[1].contains("a long list of"));
        assert!(
            aligned(&rows, 1)[1].contains("a long list…"),
            "not without end"
        );
    }
}
