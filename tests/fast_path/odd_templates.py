"""What fails, and what is at the edge of the covered subset or beyond it, as data: see `vocabulary` for how templates
read."""

from __future__ import annotations

from fast_path.vocabulary import lines

__all__ = ["BAD", "EDGE", "ODD_FINALS", "OUTSIDE"]

BAD = lines("""
    (1 / 0)
    @ints.index(@int)
    (@int / @int)
    (@int // @int)
    @weather['nope']
    @weather.nope
    @ints[99]
    @counts['nope']
    (@int + @str)
    (@str + @int)
    int('x')
    None + 1
    [10 // (2 - §) for § in range(5)]
    sum(1 / (2 - §) for § in range(5))
    json.loads('{')
    json.loads(@str)
    float('x')
    max([])
    max(§ for § in [] if §)
    'a'.index('b')
    [1].index(2)
    len(@int)
    sum(@strs)
    {[]: 1}
    f'{@H:d}{@F:d}'
    sorted([1, 'a'])
    'x'.join([1])
    dict([1])
    None.x
    @int < @str
    -@str
    abs(@str)
    (1 in 2)
    round(@str)
    range(@str)
    (@ints)['a']
    @str[@str]
    list(zip([1], [1, 2], strict=True))
    [§ + ¤ for §, ¤ in [(1, 2), (3,)]]
    {§: ¤ for §, ¤ in @strs}
    int(None)
    (@int ** 5000) > 0 and str(@int ** 5000)
    ('a' * 10 ** 10)
    '1' * -1 + None
    (@int).real
    @ints.nope
    (await get_number(1))['a']
    (await get_weather('Oslo')).nope
    @any['k']
    @any[0]
    @any + 1
    [] < {}
    ''.join(1 for § in [1])
    @weather.wind.gusts[7]
    {**@ints}
    -@any
    [*@int]
    [@int, @int][@str]
    @int << 200
    @str % ()
""")

EDGE = lines("""
    (await get_number())
    (await get_number(@int, @int))
    (await get_number(@int, n=@int))
    (await get_weather(town=@str))
    (await same({1, 2}))
    (await same(print))
    (await get_number(True))
    (await get_number(2.0))
    [].pop()
    json.dumps({1, 2})
    (1)()
    None[0]
    @row.items
    @weather.values
    undefined_name
    @str.nope()
    @str.append('x')
    get_number
    get_number(1) + 1
    lambda: 1
    (lambda §: 1 / §)(0)
    @strs.sort()
    @row['items'].append(1)
    (x2 := @int)
    print('inside')
    1 .bit_length()
    ~@int << 2
    ([] * 3 is [])
    list(dict.fromkeys(@strs))
    {§ % 5 for § in @ints}
    {@int, @int}
    {**@counts, 'a': @int}
    [@int, *@ints]
    repr(@any)
    isinstance(@any, (str, int))
    next(iter(@ints))
    next(§ for § in @rows if §['id'] == 1)
    repr(@str)
    '%s-%d' % (@str, @int)
    '{} {}'.format(@str, @int)
    type(@any).__name__
    (§ := @int)
    ord('a')
    divmod(@int, @NONZERO)
    pow(@int, 2)
    hex(@int)
    sum(await get_number(§) for § in @ints)
    [§ for § in {'b', 'a'}]
    list({'b', 'a', 'c'})
    str({1, 2})
    @str.encode()
    frozenset(@ints)
    (@int).bit_length()
    @strs.pop()
    @counts.pop('a', 0)
    @counts.popitem()
    set(@ints).union(@ints)
    (await asyncio.sleep(0, @int))
    id(@any) > 0
    callable(@any)
    list(map(lambda §, ¤: § + ¤, @ints, @ints))
    (lambda §: § + 1)(@int)
    [lambda: §  for § in @ints][0:0]
    print(@any)
    round(@float, ndigits=1)
    min(@int, @int, key=lambda §: -§)
    dict(@counts, b=@int)
    dict(**@counts)
    max(*@ints)
    sorted(@ints, key=None)
    str(@str, 'utf-8')
    int(@str, 16)
    complex(1, 2)
    (await get_number(*[@int]))
    (await get_weather(**{'city': @str}))
    @any is @any
    [*@ints, *(@int, @int)]
    {*@ints, 1}
    f'{@H:>{@H}}'
    f'{(await get_number(1))!r:>6}'
    ''.join(sorted(@str, reverse=True))
    json.dumps(@any, default=str)
    json.loads('[1, 2]', parse_int=float)
    @weather.keys() & {'city'}
    [... , 1]
    b'a'
    1j * @int
    hash(@int) == @int
    @strs.sort(key=len)
    @ints.__len__()
    slice(1, 2)
    __name__
    tools
    ToolError
    tool_call
    asyncio
    asyncio.gather
    json
    (yield)
    [await get_number(§) async for § in @ints]
    {§: (await get_number(§)) for § in @ints}
    {(await get_number(§)) for § in @ints}
    ((await get_number(1)) if @bool else @int)
    (@bool and (await get_number(1)))
    ((await get_number(1)) or (await get_number(2)))
    (0 < (await get_number(1)) < (await get_number(@int)) < 9)
    [§ for § in @ints if (await same(§ > 1))]
    (await same((await same((await same(@any))))))
    lambda §=1: §
    'a' 'b' f'{@int}'
    @ints[@int:@int]
    @ints[::@SMALL]
    @str[@int:]
    not @any
    (@any is None)
    all(§ for § in @any)
    any([])
    sum([@ints, @ints], [])
    list(enumerate(@strs, start=1))
    max(@counts, key=@counts.get)
    sorted(@counts, key=lambda §: @counts[§])
    sorted(@counts.items(), key=lambda §: (-§[1], §[0]))
    max(@counts.values(), default=0)
    [*map(str, @ints)]
    [§ for ¤ in [@ints, @ints] for § in ¤]
    {§: ¤ for § in @strs for ¤ in @ints}
    [(§, ¤) for §, (¤, _) in zip(@ints, @counts.items())]
    tuple(§ for § in @ints)
    (@int,)
    @counts == dict(@counts)
    json.loads(json.dumps({1: @any, None: 2, True: 3, 1.5: 4}))
    round(2.5) + round(-0.5)
    (10 ** 400) / 3
    2 ** -1
    0 ** -1
    int(1e400)
    1e308 * 10
    @float ** 0.5
    (-8) ** 0.5
    '\\N{BULLET}'
    '\\ud83d'
    len('\\ud83d' + @str)
    '日' * 3
    @str < '\\uffff'
    1_000_000
    0x_ff
    None == False
    @int == @float
    1 == True
    {1: 'a', True: 'b', 1.0: 'c'}
    [1, True, 1.0].index(True)
    [float('nan')] == [float('nan')]
    -7 // 2
    -7 % 3
    7.5 // -2
    round(1234.5678, -2)
    int('١٢')
    '١٢'.isdigit()
    'ß'.upper()
    'İ'.lower()
    str(1e16)
    str(0.1 + 0.2)
    ' \\u3000x '.strip()
    'a\\x1cb'.splitlines()
    'a\\x1cb'.split()
""")

ODD_FINALS = lines("""
    get_number(1)
    {@int, @int}
    set()
    {§ % 5 for § in @ints}
    map(str, @ints)
    enumerate(@ints)
    (§ for § in @ints)
    reversed(@ints)
    {'a': {1}}
    print
    get_number
    [get_number(1)]
    {'k': get_number(1)}
    ...
    b'x'
    1j
    type(@any)
    lambda: 1
    @weather.items()
    @ints.append(1)
    @ints.sort()
    list(dict.fromkeys(@strs))
    asyncio.gather(get_number(1))
    10 ** 5000
    [10 ** 5000]
""")
"""What is seldom the value of a program."""

OUTSIDE = (
    "while @bool:\n    print('round')\n    break",
    "§ = 0\nwhile § < 3:\n    print(await get_number(§))\n    § += 1",
    "try:\n    print(await fail_at_threes(@int))\nexcept ToolError as error:\n    print(error, error.tool, error.data)",
    "try:\n    print(@bad)\nexcept Exception as error:\n    print(type(error).__name__)",
    "try:\n    print(@any)\nfinally:\n    print('finally')",
    "def §(a):\n    return a + 1\nprint(§(@int))",
    "async def §(n):\n    return await get_number(n)\nprint(await §(@int))",
    "async def §(n):\n    print(n)\n    return await get_number(n)\nawait asyncio.gather(*(§(n) for n in [1, 2]))",
    "§ = lambda a: a * 2\nprint(§(@int))",
    "print((§ := @int), §)",
    "if (§ := @ints):\n    print(§)",
    "§ = @any\ndel §\nprint('gone')",
    "§ = @any\ndel §\nprint(§)",
    "print(**{'sep': '-', 'end': '!'})",
    "print(@any, file=None)",
    "print = 3",
    "len = @int",
    "len = lambda §: 4\nprint(len('x'))",
    "str = @str",
    "get_number = 5\nprint(get_number)",
    "get_number = get_weather\nprint(await get_number('Oslo'))",
    "f = get_number\nprint(await f(@int))",
    "json = None\nprint(json)",
    "class Thing:\n    size = 3\nprint(Thing.size)",
    "import math\nprint(math.sqrt(@SMALL), math.floor(@float))",
    "from json import dumps\nprint(dumps(@any))",
    "import json as j\nprint(j.dumps(@any))",
    "from asyncio import gather\nprint(await gather(get_number(1), get_number(2)))",
    "import asyncio as aio\nprint(await aio.gather(get_number(1), get_number(2)))",
    "assert @bool, 'a claim'",
    "raise ValueError(@str)",
    "§, *¤ = @ints\nprint(§, ¤)",
    "for § in @ints:\n    if § > 1:\n        break\n    print(§)",
    "for § in @ints:\n    if § == 1:\n        continue\n    print(await get_number(§))",
    "for § in @ints:\n    print(§)\nelse:\n    print('else')",
    "await asyncio.sleep(0)",
    "print(await asyncio.wait_for(get_number(@int), 5))",
    "print(await asyncio.gather(get_number(1), fail_at_threes(@int), return_exceptions=True))",
    "async with asyncio.TaskGroup() as group:\n    § = group.create_task(get_number(@int))\nprint(§.result())",
    "match @int:\n    case 1:\n        print('one')\n    case _:\n        print('other')",
    "§: int = @int\nprint(§)",
    "§ = ¤ = []\n§.append(@int)\nprint(¤)",
    "§ = []\n§.append(§)\nprint(§)",
    "§ = [1]\n¤ = [§, §]\n¤[0].append(2)\nprint(¤, await same(¤))",
    "§ = @weather\n¤ = §['wind']\n¤['speed'] = 9.5\nprint(await same(§))",
    "§ = await get_weather('Oslo')\n¤ = §['tags']\n¤.append('new')\nprint(await same(§), len(§.tags))",
    "§ = {'list': [1]}\n¤ = §['list']\n¤ += [2]\nprint(await put_in_order(¤), §)",
    "§ = 'a' * 10 ** 5\nprint(len(§ * 100))",
    "print(await tool_call('get_number', n=@int))",
    "print(await tools.get_number(@int))",
    "print(await data.same(@any))",
    "print(await tools.data.same(@any))",
    "print(await data.print_(@str))\n§ = await tools.data.print_(@str)",
    "from tools import maths\nprint(await maths.get_number(@int))",
    "from tools import maths, get_weather\nprint(await tools.maths.add(@int), await get_weather('Oslo'))",
    "from tools.maths import get_number as §\nprint(await §(@int))",
    "from tools import maths as §\nprint(await §.add(@int))",
    "import tools.maths\nprint(await tools.maths.add(@int))",
    "print(await json.odd(@int))",
    "print(await tools.json.odd(@int))",
    "maths = 3\nprint(maths, await tools.maths.get_number(@int))",
    "print(await maths.get_number(@int))\nfor maths in [1]:\n    print(maths)",
    "§ = [sky.weather(each) for each in @strs]\nprint(await asyncio.gather(*§))",
    "print([await maths.add(§) for § in @ints], await note_.all())",
    "print(await maths.gets_number(@int))",
    "print(maths.get_number)",
    "§ = maths\nprint(await §.get_number(@int))",
    "print(maths, sky)",
    "maths.get_number(@int)",
    "print(await tool_call('sky.weather', city=@str), await tool_call('get_weather', city='Rome'))",
    "print(await tool_call('sky.whether', city=@str))",
    "import tools\nprint(await tools.get_number(@int))",
    "print(isinstance(@any, (int, str)), divmod(@int, @NONZERO), ord('a'), chr(98), hex(@int))",
    "print(eval('1 + 1'))",
    "print(sorted(locals()) if False else 'no')",
    "print(@any, flush=True)",
    "$ints.sort(key=lambda §: @~int§int, reverse=True)",
    "$counts.update(a=@int)",
    "$counts.setdefault(@str, @int)",
    "$rows.sort(key=lambda §: §['value'])",
    "$ints.extend(§ for § in [1, 2])",
    "print(@str, file=sys.stderr)",
    "§ = (note(x) for x in @strs)\nawait note('first')\nprint(await asyncio.gather(*§))",
    "§ = 5\nfor ¤ in [1, 2]:\n    print(§)\n    § = get_number(¤)\n    await §",
    "§ = [zip([1], [2])]\nprint(await same(list(§[0])), await same(list(§[0])))",
    "§ = \\\n¤, data = @ints",
    "§ = [1]\n(§\n .remove(@int))",
    "for § in (\n  @any):\n    print(§)",
    "§ = 1\n§.append(@ints[5])",
    "§ = [¤ for data in [await get_number(1)] for ¤ in [¤]]",
    "§ = asyncio.create_task(get_number(1))\nprint(await asyncio.gather(§, §))",
    "print(~@bool)",
    "§ = {}\n§[await note('x')] = @int // @int",
    "§ = {}\n§[await get_number(1)], ¤ = await same(@ints)",
    "§ = await get_number(1)\n§ += await get_number(§)\nprint(§)",
    "global §\n§ = 1",
    "print(sep='-', end=@str)",
    "print(@any, sep=@int)",
    "$ints[1:2] = @ints",
    "$ints.pop()",
    "$strs.pop(0)",
    "$counts.pop('a', None)",
    "$strs.append($strs.pop())",
    "$weather.temp = @int",
    "pass",
    "...",
    "'only a text'",
    "# only a comment",
    "if True: print(1); print(2)",
    "§ = 1; ¤ = 2; print(§ + ¤)",
    "(§, ¤), data = (1, 2), @any\nprint(§, ¤, data)",
    "[§, ¤] = @ints\nprint(§)",
    "§ = ([" + "[" * 40 + "1" + "]" * 40 + "])\nprint(await same(§))",
    "print(" + "(" * 60 + "1" + ")" * 60 + ")",
    "print(" + "-" * 150 + "1)",
    "print(" + " + ".join(["1"] * 300) + ")",
    "ｘ = @int\nprint(x)",
    "ﬁ = 1\nprint(fi)",
    "ｌｅｎ = 3\nprint(len)",
    "print([await get_number(§) for § in @ints if await same(§ > 0)])",
    "print(sum([await get_number(§) for § in @ints]))",
    "print([§ async for § in @ints])",
    "print(sum(await get_number(§) for § in [1]))",
    "get_number(1)\nprint('not awaited')",
    "§ = get_number(1)\nprint('left behind')",
    "§ = get_number(1)\nprint(await §, await §)",
    "§ = asyncio.create_task(note('task'))\nprint(await §)",
    "§ = asyncio.ensure_future(get_number(2))\nprint(await §)",
    "for § in asyncio.as_completed([get_number(1)]):\n    print(await §)",
    "§ = iter(@ints)\nprint(list(§), list(§))",
    "§ = (x for x in @ints)\nprint(sum(§), sum(§))",
    "§ = zip(@ints, @strs)\nprint(list(§), list(§))",
    "§ = map(str, @ints)\nprint(list(§), len(@ints))",
    "§ = reversed(@ints)\nprint(list(§))",
    "§ = enumerate(@strs)\nfor ¤ in §:\n    print(¤)",
    "§ = range(3)\nprint(§, await same(list(§)))",
    "§ = @counts.items()\nprint(list(§))",
    "§ = {}\nfor ¤ in @strs:\n    §.setdefault(len(¤), []).append(¤)\nprint(§)",
    "§ = set()\nfor ¤ in @ints:\n    §.add(¤ % 5)\nprint(sorted(§), len(§))",
    "import sys\nprint(sys.maxsize)",
    "import datetime\nprint(datetime.date(2024, 1, 2))",
    "import re\nprint(re.sub('a', 'b', @str))",
    "§ = f'''{@int\n}'''\nprint(§)",
    "if False:\n    § = 1\nprint(§)",
    "for § in []:\n    pass\nprint(§)",
    "§ = 1\nfor § in @ints:\n    pass\nprint(§)",
    "§ = @ints\nfor ¤ in §:\n    if len(§) < 6:\n        §.append(¤)\nprint(§)",
    "§ = @counts\nfor ¤ in §:\n    §[¤ + '!'] = 1\nprint(§)",
    "§ = @counts\nfor ¤ in list(§):\n    §[¤] = await get_number(len(¤))\nprint(§)",
)
"""Statements at the edge of the covered subset, or beyond it."""
