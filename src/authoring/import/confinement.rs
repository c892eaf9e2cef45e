//! Writes the `sandbox` and `container` settings of an imported server.

use jsonc_parser::cst::CstInputValue;

use mcp_workbench_config::sections::sandbox::{
    RawContainer, RawContainerObject, RawSandbox, RawSandboxObject,
};
use mcp_workbench_config::syntax::reader::Located;

pub(super) fn sandbox(sandbox: RawSandbox) -> CstInputValue {
    let object = match sandbox {
        RawSandbox::Word(word) => return word.value.into(),
        RawSandbox::Object(object) => *object,
    };
    let RawSandboxObject { read, write, network, unix_sockets } = object;
    members([
        ("read", read.map(all)),
        ("write", write.map(all)),
        ("network", network.map(one)),
        ("unixSockets", unix_sockets.map(one)),
    ])
}

pub(super) fn container(container: RawContainer) -> CstInputValue {
    let object = match container {
        RawContainer::Image(image) => return image.value.into(),
        RawContainer::Object(object, _) => *object,
    };
    let RawContainerObject { image, engine, read, write, network } = object;
    members([
        ("image", image.map(one)),
        ("engine", engine.map(one)),
        ("read", read.map(all)),
        ("write", write.map(all)),
        ("network", network.map(one)),
    ])
}

fn one<T: Into<CstInputValue>>(value: Located<T>) -> CstInputValue {
    value.value.into()
}

fn all(paths: Vec<Located<String>>) -> CstInputValue {
    paths.into_iter().map(|path| path.value).collect::<Vec<_>>().into()
}

fn members<const N: usize>(members: [(&str, Option<CstInputValue>); N]) -> CstInputValue {
    let members = members.into_iter();
    let members = members.filter_map(|(key, value)| Some((key.to_owned(), value?)));
    CstInputValue::Object(members.collect())
}
