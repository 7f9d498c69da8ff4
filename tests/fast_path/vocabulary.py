"""Names, texts and expressions that generated programs are made of, as data, from simple to odd. Draws nothing.

In a template ``@int`` stands for an expression of that kind, ``@~int`` for one without calls, ``$ints`` for a variable
of that kind (or an expression, where there is none), and ``@SMALL`` for one of the texts in `TEXTS`. ``§`` and ``¤``
are names bound by the template: in ``@int§str`` the first may be used as a text. ``⏎`` is a place where a line may be
broken. The kinds are rough: a program that makes a mistake of type is a good program, too, if it is rare.
"""

from __future__ import annotations

__all__ = ["EXPRESSIONS", "KINDS", "NAMES", "TEXTS", "lines"]


def lines(text: str) -> tuple[str, ...]:
    """The templates of a text, one a line."""
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


NAMES = (
    "x", "y", "n", "out", "total", "data", "city", "weather", "rows", "row", "item", "index", "steps", "result", "w",
    "get_number_2", "get_weather_2", "value", "items", "é", "_", "step", "i", "results", "_1", "answer", "k",
    "null", "step_1", "get_weather_3", "sum_", "list_cities_2", "same_2", "fail_at_threes_2", "note_2",
)  # fmt: skip

TEXTS: dict[str, tuple[str, ...]] = {
    "SMALL": ("2", "1", "3", "0", "4"),
    "UNTHREE": ("1", "2", "4", "5", "-1"),
    "NONZERO": ("2", "3", "-2", "10"),
    "PAY": ("5", "9", "50"),
    "KEY": ("'a'", "'b'"),
    "CITY": ("'Oslo'", "'Paris'", "'São Paulo'", "'東京'"),
    "UNIT": ("'C'", "'F'"),
    "FORMAT": ("", ":>8", ":<6", ":^9", "!r", "!s", "!a", "!r:>12", ":*^7"),
    "NUMBER_FORMAT": (":.2f", ":,", ":>8", ":08.3f", ":+d", ":e", ":%", ":x", ":g", ":_", ":.1f", ":5d", ":q"),
    "SEP": ("', '", "''", "'\\n'", "None", "' | '", "'日'"),
    "COMPARE": ("<", "==", ">=", "!=", ">", "<="),
    "FIELD": ("id", "value", "name", "price"),
    "WHICH": tuple(map(str, range(28))),
}

KINDS = ("int", "str", "float", "bool", "ints", "strs", "weather", "rows", "row", "counts", "any")

_EXPRESSIONS = {
    "int": """
        1
        2
        0
        7
        -3
        100
        1180591620717411303424
        (@int + @int)
        (@int - @int)
        (@int * @int)
        (@int // @NONZERO)
        (@int % @NONZERO)
        (@int ** @SMALL)
        (@int & 7 | @int)
        -@int
        abs(@int)
        len(@ints)
        len(@str)
        len(@rows)
        sum(@ints)
        sum(§ * 2 for § in @~ints)
        sum(@~int§int for § in @~ints if @~bool§int)
        sum([@int§row for § in @rows], @int)
        sum(1 for § in @~strs if @~bool§str)
        max(@int, @int)
        min(@ints, default=@int)
        max(@ints, key=lambda §: @~int§int)
        round(@float)
        int(@float)
        int(@bool)
        int('12')
        int(str(@int))
        @weather['temp']
        @weather.temp
        @weather["wind"]["gusts"][0]
        @weather.wind.gusts[-1]
        @row['value']
        @row.id
        @row["items"][1]
        @ints[@SMALL]
        @ints[0]
        @counts['a']
        @counts.get('b', @int)
        @counts.get(@str, 0)
        @strs.count(@str)
        @str.find('a')
        (@int if @bool else @int)
        (@int or @int)
        (@int and @int)
        json.loads(json.dumps(@int))
        (@int, @int)[@bool]
        {'a': @int, 'b': @int}['a']
        [@int, @int, @int][-1]
    """,
    "float": """
        0.5
        2.0
        -1.25
        1e22
        0.1
        (@float + @float)
        (@float * @int)
        (@int / @NONZERO)
        round(@float, 2)
        round(@float, @SMALL)
        abs(@float)
        float(@int)
        float('1.5')
        sum([0.1, @float, 1e16])
        sum(@ints) / len(@ints)
        @weather['wind']['speed']
        @weather.wind.speed
        @row.price
        max(@float, @int)
        (@float // @NONZERO)
        (@float % 3)
        float('inf')
        (@float if @bool else @float)
    """,
    "str": """
        'a'
        ''
        @CITY
        'x y z'
        "it's"
        'naïve 😀 日本'
        '{"a": [1, 2.5]}'
        'tab\\t and \\n newline'
        '12'
        '\\x24ref:weather.city'
        '\\x24{item.temp} \\x24x \\x24\\x24'
        '\\x24item'
        (@str + @str)
        (@str * @SMALL)
        @str.upper()
        @str.strip().title()
        @str.replace('a', @str)
        @str.lower().split(' ')[0]
        @str[:@SMALL]
        @str[::-1]
        @str[1:-1]
        @str[0]
        str(@any)
        str(@float)
        ', '.join(@strs)
        @str.join(str(@~any§int) for § in @~ints)
        ''.join([§.upper() for § in @strs])
        '-'.join(map(str, @~ints))
        f'{@F}'
        f'{@F}: {@F@FORMAT}'
        f'{@G@NUMBER_FORMAT} and {@G@NUMBER_FORMAT}'
        f'{@F} is {@F=}'
        f'{@G:{@H}}'
        f"{$weather['city']}: {$weather['temp']:>5}°"
        f"{$weather.city} {$weather.wind.speed:.1f}"
        f'{{{@F}}}'
        @weather['city']
        @weather.unit
        @row.name
        @row['name'].lower()
        @strs[0]
        @strs[@SMALL]
        json.dumps(@any)
        json.dumps(@any, ensure_ascii=False, sort_keys=True)
        json.dumps(@any, indent=2)
        (@str if @bool else @str)
        (@str or @str)
        max(@strs)
        min(@strs, key=len)
        @str.center(9, '*')
        @str.zfill(5)
        @str.rjust(@SMALL)
        @str.partition('a')[2]
        @str.casefold()
        @str.removeprefix('a')
        'é'.join([@str, @str])
    """,
    "bool": """
        True
        False
        (@int @COMPARE @int)
        (@int < @int <= @int)
        (@str == @str)
        (@str in @strs)
        (@int not in @ints)
        ('a' in @str)
        ('tags' in @weather)
        not @bool
        (@bool and @bool)
        (@bool or @bool)
        any(@~bool§int for § in @~ints)
        all([@bool§row for § in @rows])
        @str.startswith('a')
        @str.endswith(('a', 'o'))
        @str.isdigit()
        bool(@any)
        ($any is None)
        (@any == @any)
        ($any is not None)
        (@ints == @ints)
        (@counts == @counts)
        (@weather['temp'] > @int)
        (@float @COMPARE @int)
        (@strs < @strs)
    """,
    "ints": """
        [1, 2, 3]
        []
        [3, 1, 2]
        [@int, @int]
        list(range(@SMALL))
        [@~int, *@~ints]
        sorted(@ints)
        sorted(@ints, reverse=@bool)
        sorted(@ints, key=lambda §: @~int§int)
        [@int§int for § in @ints]
        [§ for § in @ints if @bool§int]
        [@int§str for § in @strs]
        [§['value'] for § in @rows]
        [§ + ¤ for § in @ints for ¤ in range(§ % 3)]
        [¤ * @int§int for §, ¤ in enumerate(@ints)]
        [§ * ¤ for §, ¤ in zip(@ints, @ints)]
        (@ints + @ints)
        (@ints * @SMALL)
        @ints[1:]
        @ints[::-1]
        @ints[:@SMALL]
        list(map(lambda §: @~int§int, @~ints))
        list(map(len, @~strs))
        list(filter(None, @~ints))
        list(reversed(@ints))
        sorted(set(@ints))
        sorted({@int§int for § in @ints})
        @weather['wind']['gusts']
        @weather.wind.gusts
        @row['items']
        list(@counts.values())
        json.loads(json.dumps(@ints))
        (@ints if @bool else @ints)
        (@ints or @ints)
        @ints.copy()
        list(@ints)
        [len(§) for § in @strs]
    """,
    "strs": """
        ['a', 'b']
        ['Oslo', 'Paris']
        []
        [@str, @str]
        ['b', 'a', 'é', 'B']
        sorted(@strs)
        [@~str, *@~strs]
        sorted(@strs, key=str.lower)
        sorted(@strs, key=len, reverse=True)
        sorted(@strs, key=lambda §: (len(§), §))
        sorted(set(@strs))
        [@str§str for § in @strs]
        [@str§int for § in @ints]
        [§ for § in @strs if @bool§str]
        [§.name for § in @rows]
        [f'{§}={¤}' for §, ¤ in @counts.items()]
        @str.split()
        @str.split('a')
        'a,b,c'.split(',', 1)
        @str.splitlines()
        list(@str)
        list(@counts)
        list(@weather)
        @weather['tags']
        @weather.tags
        (@strs + @strs)
        @strs[:@SMALL]
        @strs[::-1]
        list(map(str, @~ints))
        (@strs if @bool else @strs)
    """,
    "weather": """
        {'city': 'a', 'temp': 3, 'unit': 'C', 'tags': ['t'], 'wind': {'speed': 0.5, 'gusts': [1, 2]}, 'note': None}
        (@weather if @bool else @weather)
        max([@weather, @weather], key=lambda §: §['temp'])
        [@weather, @weather][0]
    """,
    "row": """
        {'id': 1, 'name': 'a', 'value': 2, 'price': 0.5, 'items': [1, 2], 'keys': {'a': 1}}
        @rows[0]
        @rows[@SMALL]
        @rows[-1]
        max(@rows, key=lambda §: §['value'])
        min(@rows, key=lambda §: §.name)
    """,
    "rows": """
        [{'id': 1, 'name': 'a', 'value': 2, 'price': 0.5, 'items': [1, 2], 'keys': {'a': 1}}]
        [@row]
        [@row, @row]
        @rows[1:]
        @rows[:@SMALL]
        sorted(@rows, key=lambda §: §.@FIELD)
        sorted(@rows, key=lambda §: (§['name'], -§['value']), reverse=True)
        [§ for § in @rows if @bool§row]
        (@rows + @rows)
    """,
    "counts": """
        {'a': 1, 'b': 2}
        {'a': @int, @str: @int}
        {}
        {§: @int§str for § in @strs}
        {§: @int§str¤int for §, ¤ in @counts.items() if @bool§str¤int}
        {**@~counts, 'a': @~int}
        dict(zip(@strs, @ints))
        dict(a=@int, b=@int)
        dict([('a', @int), ('b', @int)])
        {§['name']: §['value'] for § in @rows}
        {§: len(§) for § in @strs}
        (@counts | @counts)
        dict(sorted(@counts.items()))
        @row['keys']
        @row.get('keys', {})
        {'items': @int, 'keys': @int}
        @counts.copy()
    """,
    "any": """
        @int
        @str
        None
        @float
        @bool
        @ints
        @strs
        @weather
        @rows
        @row
        @counts
        {**@~weather, 'temp': @~int}
        {**@~row, 'value': @~int}
        dict(@weather)
        @weather.copy()
        [{**§, 'value': @int§row} for § in @rows]
        json.loads(json.dumps(@rows))
        (@any, @any)
        [@any, @any]
        {'k': @any}
        {1: @any, 2: @any}
        (@any if @bool else @any)
        (@any or @any)
        (@any and @any)
        [(§, ¤) for §, ¤ in enumerate(@strs, @SMALL)]
        list(zip(@strs, @ints))
        list(@counts.items())
        tuple(@ints)
        [[@any§int¤str for § in [1, 2]] for ¤ in @strs]
        {§: [@any§str¤int for ¤ in @ints] for § in @strs}
        json.loads('{"a": [1, 2.0, null, {"b": "é"}]}')
        @weather.get('note')
        @weather['note']
        @row
        ()
        {}
        -0.0
        10 ** 20
        {'\\x24ref': 'weather', '\\x24expr': '1 + 1'}
        {'\\x24expr': @str}
        {'\\x24literal': @any}
        {'\\x24ref': @any}
        [{'\\x24expr': '1'}, '\\x24steps']
        range(@SMALL)
        @counts.keys()
        float('nan')
        [None, [None, []]]
    """,
}
EXPRESSIONS = {kind: lines(text) for kind, text in _EXPRESSIONS.items()}
