//! Where a task stands, and what it asks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{IdError, NodeName, Step};

/// One level of a [`TaskPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskLevel {
    /// The superstep, counted on that level.
    pub step: Step,
    /// The node.
    pub node: NodeName,
    /// The place among the tasks of that node in that superstep; 0 where there is one.
    pub index: u32,
}

/// Where a task stands: the superstep, node and index on each level from the outermost graph in.
///
/// The order of task paths is the order in which updates are merged; it never depends on a clock.
/// As text, `/ : [ ] | %` inside names are percent-encoded: `3:study[2]`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskPath(Vec<TaskLevel>);

impl TaskPath {
    /// The path of a task of the outermost graph.
    pub fn new(step: Step, node: NodeName, index: u32) -> Self {
        Self(vec![TaskLevel { step, node, index }])
    }

    /// This path on the levels below another task: that of a task in the graph which the other runs.
    #[must_use]
    pub fn within(&self, outer: &TaskPath) -> Self {
        Self(outer.0.iter().chain(&self.0).cloned().collect())
    }

    /// The task whose graph this one belongs to; none for a task of the outermost graph.
    pub fn outer(&self) -> Option<Self> {
        match self.0.as_slice() {
            [] | [_] => None,
            [outer @ .., _] => Some(Self(outer.to_vec())),
        }
    }

    /// The same path as the graph that another task runs sees it; none where it does not lie below.
    pub(crate) fn below(&self, outer: &TaskPath) -> Option<Self> {
        match self.0.strip_prefix(outer.0.as_slice()) {
            None | Some([]) => None,
            Some(rest) => Some(Self(rest.to_vec())),
        }
    }

    /// The outermost level.
    pub(crate) fn first(&self) -> &TaskLevel {
        self.0.first().expect("a task path has at least one level")
    }

    /// The levels, outermost first; at least one.
    pub fn levels(&self) -> &[TaskLevel] {
        &self.0
    }

    /// The innermost level: the task itself.
    pub fn task(&self) -> &TaskLevel {
        self.0.last().expect("a task path has at least one level")
    }
}

impl fmt::Display for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, level) in self.0.iter().enumerate() {
            if depth > 0 {
                f.write_str("/")?;
            }
            write!(f, "{}:", level.step)?;
            for c in level.node.as_str().chars() {
                match c {
                    '/' | ':' | '[' | ']' | '|' | '%' => write!(f, "%{:02X}", c as u32)?,
                    c if c.is_control() => write!(f, "%{:02X}", c as u32)?,
                    c => write!(f, "{c}")?,
                }
            }
            write!(f, "[{}]", level.index)?;
        }
        Ok(())
    }
}

impl fmt::Debug for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TaskPath {
    type Err = IdError;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::Malformed {
            what: "task path",
            found: text.to_owned(),
            expected: "3:review[0]",
        };
        let level = |level: &str| {
            let (step, rest) = level.split_once(':')?;
            let (node, index) = rest.strip_suffix(']')?.split_once('[')?;
            Some(TaskLevel {
                step: Step::new(step.parse().ok()?),
                node: NodeName::new(unescaped(node)?).ok()?,
                index: index.parse().ok()?,
            })
        };
        let levels: Option<Vec<_>> = text.split('/').map(level).collect();
        levels.map(Self).ok_or_else(wrong)
    }
}

/// A node's name as it stands in a path, without its percent signs.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        name.push(char::from(code));
        name.push_str(&part[2..]);
    }
    Some(name)
}

/// Names a question: the task that asks, and the key that its author gave.
///
/// As text, the path and the key with a dot between: `3:review[0].approve`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuestionId {
    task: TaskPath,
    key: String,
}

impl QuestionId {
    /// The question that a task has asked under a key.
    pub fn new(task: TaskPath, key: impl Into<String>) -> Self {
        let key = key.into();
        Self { task, key }
    }

    /// The same question on the levels below another task.
    #[must_use]
    pub fn within(&self, outer: &TaskPath) -> Self {
        Self::new(self.task.within(outer), self.key.clone())
    }

    /// The task.
    pub fn task(&self) -> &TaskPath {
        &self.task
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.task, self.key)
    }
}

impl FromStr for QuestionId {
    type Err = IdError;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, IdError> {
        // No name in a path holds a bracket, so the first one with a dot behind it ends the path.
        let Some(end) = text.find("].") else {
            return Err(IdError::Malformed {
                what: "question id",
                found: text.to_owned(),
                expected: "3:review[0].approve",
            });
        };
        Ok(Self::new(text[..=end].parse()?, &text[end + 2..]))
    }
}

impl TryFrom<String> for QuestionId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<QuestionId> for String {
    fn from(id: QuestionId) -> String {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_path_is_readable_and_unambiguous() {
        let node = |name: &str| NodeName::new(name).expect("a name");
        let path = TaskPath::new(Step::new(3), node("a/b[1]:%|"), 2);
        assert_eq!(path.to_string(), "3:a%2Fb%5B1%5D%3A%25%7C[2]");
        assert_eq!(path.task().index, 2);
        assert_eq!(path.to_string().parse(), Ok(path));
    }

    #[test]
    fn a_question_id_is_read_as_it_was_written() {
        let node = NodeName::new("a]./b%[0].\u{7}é").expect("a name");
        let task = TaskPath::new(Step::new(3), node, 2);
        for key in ["approve", "", "a.b]./[0].c", "é"] {
            let id = QuestionId::new(task.clone(), key);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for wrong in [
            "",
            "approve",
            "3:review[0]",
            "3:[0].x",
            "x:review[0].x",
            "3:a%zz[0].x",
        ] {
            assert!(wrong.parse::<QuestionId>().is_err(), "{wrong}");
        }
    }
}
