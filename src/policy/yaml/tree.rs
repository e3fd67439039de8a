//! Parses YAML into a tree that knows the place of every key and value, and leaves every scalar as
//! it is written.

use std::borrow::Cow;

use granit_parser::{Event, Marker, Parser, ScalarStyle};

use crate::policy::error::{Findings, Location};

/// One value of the file.
#[derive(Debug, Clone)]
pub struct Node {
    pub place: Location,
    pub value: Value,
}

/// YAML's three shapes. A scalar keeps its text: whether `no` is a word or a truth value is for the
/// reader of the key to say.
#[derive(Debug, Clone)]
pub enum Value {
    Scalar { text: String, quoted: bool },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: String,
    pub place: Location,
    pub value: Node,
}

impl Value {
    /// The shape in words, for messages.
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Scalar {
                text,
                quoted: false,
            } if text.is_empty() => "nothing",
            Self::Scalar { .. } => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// The tree of one document. Anchors, aliases, tags and second documents are errors: a policy says
/// everything once and in place.
pub fn parse(text: &str, findings: &mut Findings) -> Option<Node> {
    let mut builder = Builder {
        open: Vec::new(),
        root: None,
        documents: 0,
    };
    for next in Parser::new_from_str(text) {
        match next {
            Ok((event, span)) => builder.take(event, place(&span.start), findings),
            Err(error) => {
                findings.error(
                    place(error.marker()),
                    format!("this is not YAML: {}", error.info()),
                );
                return None;
            }
        }
    }
    if builder.root.is_none() {
        findings.error(
            Location::START,
            "the file is empty; a policy starts with `version: 1`",
        );
    }
    builder.root
}

/// A list or map whose end has not come yet, with the key that waits for its value.
struct Open {
    node: Node,
    key: Option<(String, Location)>,
}

struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, place: Location, findings: &mut Findings) {
        match event {
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentEnd
            | Event::Comment(..)
            | Event::Anchor(..) => {}
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents == 2 {
                    findings.error(
                        place,
                        "a second YAML document starts here; a policy is one document",
                    );
                }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                findings.error(
                    place,
                    "aliases (*name) are not allowed in a policy; write the value out",
                );
                self.add(
                    Node {
                        place,
                        value: scalar(Cow::Borrowed(""), ScalarStyle::Plain),
                    },
                    findings,
                );
            }
            Event::Scalar(text, style, anchor, tag) => {
                decorated(anchor, tag.is_some(), place, findings);
                self.add(
                    Node {
                        place,
                        value: scalar(text, style),
                    },
                    findings,
                );
            }
            Event::SequenceStart(_, anchor, tag) => {
                decorated(anchor, tag.is_some(), place, findings);
                self.open.push(Open {
                    node: Node {
                        place,
                        value: Value::List(Vec::new()),
                    },
                    key: None,
                });
            }
            Event::MappingStart(_, anchor, tag) => {
                decorated(anchor, tag.is_some(), place, findings);
                self.open.push(Open {
                    node: Node {
                        place,
                        value: Value::Map(Vec::new()),
                    },
                    key: None,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(open) = self.open.pop() {
                    self.add(open.node, findings);
                }
            }
            // The enum is open: what a later parser adds is refused until it is understood.
            _ => findings.error(place, "this YAML construct is not allowed in a policy"),
        }
    }

    /// Puts a finished node where it belongs: into the open list, or as key or value of the open
    /// map.
    fn add(&mut self, node: Node, findings: &mut Findings) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match &mut open.node.value {
            Value::Scalar { .. } => {}
            Value::List(items) => items.push(node),
            Value::Map(entries) => match open.key.take() {
                None => {
                    let key = match node.value {
                        Value::Scalar { text, .. } => text,
                        Value::List(_) | Value::Map(_) => {
                            findings.error(node.place, "a key must be a single word");
                            String::new()
                        }
                    };
                    open.key = Some((key, node.place));
                }
                Some((key, place)) => match entries.iter().find(|e| e.key == key) {
                    Some(first) => {
                        findings.error(
                            place,
                            format!(
                                "key \"{key}\" is given twice; the first is on line {}",
                                first.place.line
                            ),
                        );
                    }
                    None => entries.push(Entry {
                        key,
                        place,
                        value: node,
                    }),
                },
            },
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    Value::Scalar {
        text: text.into_owned(),
        quoted: style != ScalarStyle::Plain,
    }
}

fn decorated(anchor: usize, tagged: bool, place: Location, findings: &mut Findings) {
    if anchor != 0 {
        findings.error(
            place,
            "anchors (&name) are not allowed in a policy; write the value out where it is needed",
        );
    }
    if tagged {
        findings.error(place, "tags (!name) are not allowed in a policy");
    }
}

fn place(marker: &Marker) -> Location {
    Location {
        line: marker.line(),
        column: marker.col() + 1,
    }
}
