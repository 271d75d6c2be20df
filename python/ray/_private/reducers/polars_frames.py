"""polars' frames and series.

polars pickles them as bytes that it writes and reads anew. Where pyarrow is there too, they go as
Arrow's arrays, which share polars' memory on the one side and the store's on the other: polars
changes no memory that somebody else may have. Types that Arrow has in another shape (categories,
decimals, objects) are pickled by polars.
"""

import polars

_SIMPLE = frozenset(
    (
        polars.Int8,
        polars.Int16,
        polars.Int32,
        polars.Int64,
        polars.UInt8,
        polars.UInt16,
        polars.UInt32,
        polars.UInt64,
        polars.Float32,
        polars.Float64,
        polars.Boolean,
        polars.String,
        polars.Binary,
        polars.Date,
        polars.Time,
        polars.Datetime,
        polars.Duration,
    )
)


def reducer_of(kind):
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return None
    return {polars.DataFrame: _reduce_frame, polars.Series: _reduce_series}.get(kind)


def _is_simple(dtype):
    if isinstance(dtype, (polars.List, polars.Array)):
        return _is_simple(dtype.inner)
    if isinstance(dtype, polars.Struct):
        return all(_is_simple(field.dtype) for field in dtype.fields)
    return dtype.base_type() in _SIMPLE


def _reduce_frame(frame):
    if frame.width == 0 or not all(_is_simple(dtype) for dtype in frame.dtypes):
        return frame.__reduce_ex__(5)
    orders = {column.name: _order(column) for column in frame.iter_columns() if _order(column)}
    return _frame, (_to_arrow(frame), orders)


def _reduce_series(series):
    if not _is_simple(series.dtype):
        return series.__reduce_ex__(5)
    return _series, (_to_arrow(series), series.name, _order(series))


def _to_arrow(value):
    """Strings have the form that polars has them in, which needs no copy, unless that would take
    the memory of far more of them along.
    """
    shared = value.to_arrow(compat_level=polars.CompatLevel.newest())
    if shared.get_total_buffer_size() <= 2 * value.estimated_size() + 4096:
        return shared
    return value.to_arrow(compat_level=polars.CompatLevel.oldest())


def _order(series):
    """How polars knows the series to be sorted: "SORTED_ASC", "SORTED_DESC", or None."""
    for name in ("SORTED_ASC", "SORTED_DESC"):
        if series.flags.get(name):
            return name
    return None


def _sorted(series, order):
    return series.set_sorted(descending=order == "SORTED_DESC") if order else series


def _frame(table, orders):
    frame = polars.from_arrow(table, rechunk=False)
    for name, order in orders.items():
        frame.replace_column(frame.get_column_index(name), _sorted(frame.get_column(name), order))
    return frame


def _series(array, name, order):
    return _sorted(polars.from_arrow(array, rechunk=False).alias(name), order)
