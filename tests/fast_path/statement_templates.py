"""Statements and calls that generated programs are made of, as data: see `vocabulary` for how templates read."""

from __future__ import annotations

from fast_path.vocabulary import lines

__all__ = ["CALLS", "CHANGES", "FINALS", "LOOPS", "PRINTS"]

_CALLS = """
    int read get_number(@int)
    int read get_number(n=@int)
    int read get_number(@SMALL)
    int read maths.get_number(@int)
    int read tools.maths.get_number(n=@int)
    int read tool_call('maths.get-number', n=@int)
    weather read get_weather(@CITY)
    weather read get_weather(@str)
    weather read get_weather(@CITY, @UNIT)
    weather read sky.weather(@CITY)
    weather read sky.weather(⏎@str,⏎unit=@UNIT⏎)
    weather read get_weather(⏎city=@str,⏎unit=@UNIT⏎)
    weather read get_weather(unit=@str, city=@str)
    strs read list_cities()
    strs read list_cities(@SMALL)
    rows read get_rows()
    rows read get_rows(@SMALL)
    any read odd(@WHICH)
    any read odd(@WHICH)
    any read same(@any)
    int read same(@int)
    str read same(@str)
    ints read same(@ints)
    strs read same(value=@strs)
    weather read same(@weather)
    rows read same(@rows)
    counts read same(@counts)
    bool read same(@bool)
    float read same(@float)
    any read same_in_thread(@any,⏎ @any)
    str read same_in_thread(@str)
    row read same_in_thread(@row)
    float read get_rate(@str)
    float read get_rate(@CITY)
    any read put_in_order(@ints)
    strs read put_in_order(@strs)
    any read strip_record(@weather)
    any read strip_record(@row)
    int read fail_at_threes(@UNTHREE)
    int read fail_at_threes(@int)
    any read fall_back(@any)
    str write get_secret(@SMALL)
    int write note(@any)
    int write note(@str)
    any write note_slowly(@any)
    int write add_to_total(@SMALL)
    int write add_to_total()
    int write maths.add(@SMALL)
    int write tool_call('data.print', text=@str)
    any write store(@KEY, @any)
    int write note_or_fail(@UNTHREE)
    strs write sort_and_note(@strs)
    ints write sort_and_note(@ints)
    str write pay(@PAY)
    any state read_notes()
    int state read_total()
    any state read_notes()
    any state note_.all()
    any state tools.note_.all_()
    any state load(@KEY)
    any bad fail_later(@str)
    int bad crash()
    int bad break_contract(@int)
    int bad come_late()
    int bad get_number(@str)
    int bad maths.get_number(@str)
    int bad fail_at_threes(3)
    int bad note_or_fail(6)
    str bad pay(500)
    str bad get_secret(@int)
    any bad same(range(3))
    any bad same(float('nan'))
    any bad same({1: 2, 'k': (1, 2)})
"""

CALLS = tuple((kind, family, text) for kind, family, text in (line.split(" ", 2) for line in lines(_CALLS)))
"""Kind of the result, family, text. Families: what only reads; what changes the world; what reads the world; what
fails, whatever it is."""

PRINTS = lines("""
    print(@any)
    print(@str)
    print(@int)
    print(@F)
    print(@any, @any)
    print(@str,⏎ @int,⏎ @float⏎)
    print()
    print(*@ints)
    print(*@strs, sep=@SEP)
    print(@any, *@ints, end='')
    print('', '', sep='', end='')
    print('', end=@SEP)
    print(@str, end=@SEP)
    print(@any, @any, sep=@SEP)
    print(@any, @any, sep=@SEP, end='\\n\\n')
    print(f'{@F}: {@F@FORMAT}')
    print(f"{$weather['city']}: {$weather['temp']}")
    print(f'{@G@NUMBER_FORMAT}')
    print(json.dumps(@any, indent=2))
""")

CHANGES = lines("""
    $ints.append(@int)
    $strs.append(@str)
    $ints.extend(@ints)
    $strs.extend(@strs)
    $counts[@str] = @int
    $counts['a'] = @int
    $weather['temp'] = @int
    $weather['wind']['gusts'].append(@int)
    $weather['wind']['speed'] = @float
    $row['items'].append(@int)
    $rows.append(@row)
    $rows[0]['value'] = @int
    $ints[0] = @int
    $strs[-1] = @str
    $ints += @ints
    $ints += [@int]
    $int += @int
    $int -= @int
    $int *= @int
    $float += @float
    $float /= @NONZERO
    $str += @str
    $str += f'{@F}, '
    $strs += [@str]
    $ints *= 2
    $counts |= @counts
    $counts['a'] += @int
    $counts[@str] = $counts.get(@str, 0) + 1
    $ints.sort()
    $strs.sort()
    $ints.reverse()
    $ints.insert(0, @int)
    $counts.update(@counts)
    $weather['tags'].append(@str)
    $weather['new'] = @any
    $ints.clear()
    $ints.remove(@int)
    $weather['self'] = $weather
    $int //= @int
    $int **= 2
    $int %= @NONZERO
    $str *= @SMALL
    $ints.append($ints)
    $bool &= @bool
    $bool |= @bool
    $ints[@int] = @int
    $strs.extend(@str)
    $any = $any
""")

LOOPS = (
    ("for {0} in @ints:", ("int",)),
    ("for {0} in @strs:", ("str",)),
    ("for {0} in [@CITY, @CITY]:", ("str",)),
    ("for {0} in range(@SMALL):", ("int",)),
    ("for {0} in @rows:", ("row",)),
    ("for {0}, {1} in enumerate(@strs):", ("int", "str")),
    ("for {0}, {1} in zip(@strs, @ints):", ("str", "int")),
    ("for {0}, {1} in @counts.items():", ("str", "int")),
    ("for {0} in sorted(@counts):", ("str",)),
    ("for {0} in (await list_cities()):", ("str",)),
    ("for {0} in [await get_weather(city) for city in ['a', 'bc']]:", ("weather",)),
    ("for {0} in (@any, @any):", ("any",)),
    ("for {0} in @str:", ("str",)),
    ("for {0}, ({1}, _) in [(1, ('a', 2)), (@int, (@str, @int))]:", ("int", "str")),
    ("for {0} in @weather:", ("str",)),
    ("for {0} in range(30):", ("int",)),
    ("for {0}, {1} in enumerate(@rows):", ("int", "row")),
    ("for {0}, {1} in [(@str, @int), (@str, @int)]:", ("str", "int")),
)
"""The head of a loop, and the kinds of the names that it binds."""

FINALS = lines("""
    @any
    @int
    (@any, @any)
    [@any, {'x': @any}]
    {@int: @any}
    range(@SMALL)
    None
    float('nan')
    [float('inf'), @any]
    {@str: @any, 'k': (@any, @any)}
    print(@any)
    {1: 'a', '1': 'b'}
    {True: 1, None: 2}
    {(1, 2): 3}
    {1.5: @int, 2 ** 70: None}
    @counts.items()
    @counts.values()
    @counts.keys()
    'half a pair: \\ud800'
    [[]] * 3
    -0.0
    10 ** 30
    1e400
    True
    @odd
""")
