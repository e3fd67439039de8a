//! Parses YAML into a tree that knows the place of every key and value, and leaves every scalar as
//! it is written.

use std::borrow::Cow;

use granit_parser::{Event, Marker, Parser, ScalarStyle};

use crate::policy::error::{Findings, Location};

/// One value of the file.
#[derive(Debug, Clone)]
pub struct YamlNode {
    pub place: Location,
    pub value: YamlValue,
}

/// YAML's three shapes. A scalar keeps its text: whether `no` is a word or a truth value is for the
/// reader of the key to say.
#[derive(Debug, Clone)]
pub enum YamlValue {
    Scalar { text: String, quoted: bool },
    List(Vec<YamlNode>),
    Map(Vec<MapEntry>),
}

/// One `key: value` of a map.
#[derive(Debug, Clone)]
pub struct MapEntry {
    pub key: String,
    pub place: Location,
    pub value: YamlNode,
}

impl YamlValue {
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
pub fn parse(text: &str, findings: &mut Findings) -> Option<YamlNode> {
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
    node: YamlNode,
    key: Option<(String, Location)>,
}

struct Builder {
    open: Vec<Open>,
    root: Option<YamlNode>,
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
                    YamlNode {
                        place,
                        value: scalar(Cow::Borrowed(""), ScalarStyle::Plain),
                    },
                    findings,
                );
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_decoration(anchor, tag.is_some(), place, findings);
                self.add(
                    YamlNode {
                        place,
                        value: scalar(text, style),
                    },
                    findings,
                );
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_decoration(anchor, tag.is_some(), place, findings);
                self.open.push(Open {
                    node: YamlNode {
                        place,
                        value: YamlValue::List(Vec::new()),
                    },
                    key: None,
                });
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_decoration(anchor, tag.is_some(), place, findings);
                self.open.push(Open {
                    node: YamlNode {
                        place,
                        value: YamlValue::Map(Vec::new()),
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
    fn add(&mut self, node: YamlNode, findings: &mut Findings) {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return;
        };
        match &mut open.node.value {
            YamlValue::Scalar { .. } => {}
            YamlValue::List(items) => items.push(node),
            YamlValue::Map(entries) => match open.key.take() {
                None => {
                    let key = match node.value {
                        YamlValue::Scalar { text, .. } => text,
                        YamlValue::List(_) | YamlValue::Map(_) => {
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
                    None => entries.push(MapEntry {
                        key,
                        place,
                        value: node,
                    }),
                },
            },
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> YamlValue {
    YamlValue::Scalar {
        text: text.into_owned(),
        quoted: style != ScalarStyle::Plain,
    }
}

fn refuse_decoration(anchor: usize, tagged: bool, place: Location, findings: &mut Findings) {
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
