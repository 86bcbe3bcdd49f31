"""Bodies of markdown in any order of its lines."""

from __future__ import annotations

from hypothesis import strategies as st

SAMPLE = """# A
## B
###### C
#D
```
```sh
~~~
````
    ```
<!--
-->
| a | b |
|---|:-:|
---
===
text
- item
    code

\t
> q
断路器。
&nbsp;
a | b
`x`"""
LINES = [*SAMPLE.split("\n"), "", "# "]
MARKDOWN = st.lists(st.sampled_from(LINES), max_size=30).map("\n".join)
