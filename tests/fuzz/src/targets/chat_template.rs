//! A chat template: a program that came with a model.

use specfleet_model::chat_template::{ChatTemplate, SpecialTokens};

use super::checkpoint;
use crate::{Allowance, Answer, Decode, Target};

/// The budget of a rendering stands for about 3 MB, and buffers grow by doubling.
pub(super) const TARGET: Target =
    Target { name: "chat-template", allowance: Allowance { fixed: 16 << 20, per_byte: 256 }, seeds, start };

fn start() -> Decode {
    Box::new(|bytes| {
        let Ok(source) = std::str::from_utf8(bytes) else { return Answer::Refused };
        let special = SpecialTokens { begin: "<s>".to_owned(), end: "</s>".to_owned() };
        let rendered = ChatTemplate::new(source, special).is_ok_and(|template| checkpoint::render(&template));
        if rendered { Answer::Accepted } else { Answer::Refused }
    })
}

fn seeds() -> Vec<Vec<u8>> {
    [
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nHi<|im_end|>\n' }}\
         {% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        "{{- bos_token }}{%- set ns = namespace(last=-1, text='') %}{%- for m in messages %}{%- if m.role == \"user\" and not \
         m.content.startswith('<tool>') %}{%- set ns.last = loop.index0 %}{%- endif %}{%- set ns.text = ns.text ~ m.content * 3 %}\
         {%- endfor %}{{ ns.text.split('</think>')[-1].lstrip('\\n').replace('a', 'bb') | trim | upper }}{{ messages | tojson(indent=2) }}",
        "{% macro turn(m, depth=0) %}[{{ m.role | title }}: {{ m.content[:5] }}]{% if depth < 3 %}{{ turn(m, depth + 1) }}{% endif %}\
         {% endmacro %}{% for m in messages | reverse %}{{ turn(m) }}{% if not loop.last %}{{ range(10) | join(',') }}{% endif %}\
         {% endfor %}{{ strftime_now('%A %d %B %Y') }}{{ messages | map(attribute='role') | list }}{{ dict(a=1, b=[1, 2.5, none]) }}\
         {% generation %}{{ '%05d|%s' | format(7, eos_token) }}{% endgeneration %}",
        "{% for a in range(3) recursive %}{{ a }}{% if a > 1 %}{{ loop([0, 1]) }}{% endif %}{% break %}{% endfor %}\
         {% set x = [1, [2, [3]]] %}{{ x | length }}{{ (x + x) | string }}{{ 2 ** 10 // 3 % 7 }}{{ {'a': x}.items() | list }}",
    ]
    .map(|source| source.as_bytes().to_vec())
    .into()
}
