"""A page to look at: a model before and after, in one file that needs no network.

`graph` reads modules into plain records, `blocks` finds what repeats, `layout` places ops
(with the library of the extra `report`), `casts` follows quantize, dequantize and rescale
from before to after, `cost` prices ops for a target, and `page` puts it all into HTML.
"""
