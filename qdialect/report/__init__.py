"""A page to look at: a model before and after, in one file that needs no network.

`graph` reads modules into plain records, `blocks` finds what repeats, `groups` makes a tree of
that, `layout` places its parts (with the library of the extra `report`), `drawing` makes data of
them, `casts` follows quantize, dequantize and rescale from before to after, `histograms` counts
values, `cost` prices ops for a target, `tables` makes the rows, and `page` puts it all
into HTML.
"""
