//! The state of a thread whose graph this program does not have.
//!
//! In come records, out go field names and values as far as they tell: the newest base, and for
//! each field the changes since. What the last write decides alone is shown as a value; what a
//! reducer would have to merge is shown as the base and the changes, unmerged.

use serde_json::{Map, Value, json};

use super::exit::Failure;
use super::json;
use crate::ThreadId;
use crate::store::{
    BaseRecord, BaseValue, CheckpointStore, CommitRecord, Few, Head, OutcomeRef, Record,
    StoredBase, StoredChange, StoredValue,
};

/// The reducer that keeps the last write alone.
const LAST_WRITE: &str = "replace";
/// The reducer that puts lists one behind the other.
const ONE_BEHIND_THE_OTHER: &str = "append";

/// The fields, as far as the records tell.
pub(super) async fn fields(
    store: &dyn CheckpointStore,
    thread: &ThreadId,
    head: &Head,
) -> Result<Value, Failure> {
    let mut fields = Fields::default();
    if let Some(stored) = store.records(thread, head.schema, 1).await?.first()
        && let Record::Schema(schema) = &*stored.record
    {
        for field in &schema.fields {
            fields
                .reducers
                .insert(field.name.clone(), field.reducer.clone());
        }
    }
    let mut from = head.base;
    // All that the position is made of stands on the branch of its base.
    let mut branch = head.branch;
    loop {
        let page = store.records(thread, from, 256).await?;
        let Some(last) = page.last() else { break };
        from = last.seq.next();
        for stored in &page {
            match &*stored.record {
                Record::Base(base) if stored.seq == head.base => {
                    branch = stored.branch;
                    fields.base(store, thread, base).await?;
                }
                // The base is written behind the position that it is the state of.
                _ if stored.seq < head.base || stored.seq > head.seq => {}
                _ if stored.branch != branch => {}
                Record::Input(input) => {
                    fields.changes(&input.settled);
                    fields.changes(&input.update);
                    fields.values(&input.values);
                }
                Record::Outcome(outcome) => {
                    fields
                        .outcomes
                        .insert(stored.seq.get(), outcome.changes.clone());
                }
                Record::Commit(commit) => fields.commit(commit),
                _ => {}
            }
        }
        if from > head.seq.next() {
            break;
        }
    }
    Ok(Value::Object(fields.shown))
}

#[derive(Default)]
struct Fields {
    shown: Map<String, Value>,
    reducers: std::collections::BTreeMap<String, String>,
    outcomes: std::collections::BTreeMap<u64, Few<StoredChange>>,
}

impl Fields {
    async fn base(
        &mut self,
        store: &dyn CheckpointStore,
        thread: &ThreadId,
        base: &BaseRecord,
    ) -> Result<(), Failure> {
        for field in &base.fields {
            let value = match &field.value {
                BaseValue::Whole(bytes) => json::value(field.codec, bytes),
                BaseValue::Items { sealed, tail, .. } => {
                    let ids: Vec<_> = sealed.iter().map(|segment| segment.id).collect();
                    let mut items = Vec::new();
                    let segments = store.segments(thread, &ids).await?;
                    if sealed.first().is_some_and(|piece| piece.items == 0) {
                        let whole = json::value(field.codec, &segments.concat());
                        self.shown.insert(field.field.clone(), whole);
                        continue;
                    }
                    for bytes in segments.iter().map(|bytes| &**bytes).chain([&tail[..]]) {
                        match json::items(field.codec, bytes) {
                            Value::Array(some) => items.extend(some),
                            other => items.push(other),
                        }
                    }
                    Value::Array(items)
                }
            };
            self.shown.insert(field.field.clone(), value);
        }
        Ok(())
    }

    fn commit(&mut self, commit: &CommitRecord) {
        for outcome in &commit.outcomes {
            match outcome {
                OutcomeRef::Inline(outcome) => self.changes(&outcome.changes),
                OutcomeRef::At(at) => {
                    let changes = self.outcomes.remove(at).unwrap_or_default();
                    self.changes(&changes);
                }
            }
        }
        self.values(&commit.values);
    }

    /// Values that are stored whole, whatever the updates were.
    fn values(&mut self, values: &[StoredValue]) {
        for value in values {
            let shown = json::value(value.codec, &value.bytes);
            self.shown.insert(value.field.clone(), shown);
        }
    }

    fn changes(&mut self, changes: &[StoredChange]) {
        for change in changes {
            let reducer = self
                .reducers
                .get(change.field.as_str())
                .map_or("", String::as_str);
            let shown = self
                .shown
                .entry(change.field.clone())
                .or_insert(Value::Null);
            match &change.base {
                StoredBase::Keep => {}
                StoredBase::Clear => *shown = Value::Null,
                StoredBase::Overwrite(bytes) => *shown = json::value(change.codec, bytes),
            }
            for bytes in &change.merges {
                merge(shown, json::value(change.codec, bytes), reducer);
            }
        }
    }
}

fn merge(shown: &mut Value, update: Value, reducer: &str) {
    match (reducer, &mut *shown, update) {
        (LAST_WRITE, shown, update) => *shown = update,
        (ONE_BEHIND_THE_OTHER, Value::Array(items), Value::Array(more)) => items.extend(more),
        (ONE_BEHIND_THE_OTHER, shown @ Value::Null, update) => *shown = update,
        (_, Value::Object(known), update) if known.contains_key("$merged_later") => {
            if let Some(Value::Array(later)) = known.get_mut("$merged_later") {
                later.push(update);
            }
        }
        (_, shown, update) => {
            let base = shown.take();
            *shown = json!({"$base": base, "$merged_later": [update]});
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_write_and_lists_are_shown_as_values_and_the_rest_unmerged() {
        let mut shown = json!(1);
        merge(&mut shown, json!(2), LAST_WRITE);
        assert_eq!(shown, json!(2));
        let mut shown = Value::Null;
        merge(&mut shown, json!([1]), ONE_BEHIND_THE_OTHER);
        merge(&mut shown, json!([2]), ONE_BEHIND_THE_OTHER);
        assert_eq!(shown, json!([1, 2]));
        let mut shown = json!(7);
        merge(&mut shown, json!(1), "add");
        merge(&mut shown, json!(2), "add");
        assert_eq!(shown, json!({"$base": 7, "$merged_later": [1, 2]}));
    }
}
