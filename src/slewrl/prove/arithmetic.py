"""The limiter's arithmetic, described once: what is proved, and what tests hold to the Python and the C code.

tests/prove/test_arithmetic.py compares each program with ``RateLimiter``, ``Motion``, ``FeasibleBox`` and the compiled
C header, bit for bit. All are for one joint.
"""

from slewrl.prove.program import Program

LIMITER = Program("""
# Knuth's TwoSum: error_up is prev + rise - sum_up. A sum that was rounded outward steps back by one float.
sum_up = prev + rise
part_up = sum_up - prev
back_up = sum_up - part_up
left_up = prev - back_up
right_up = rise - part_up
error_up = left_up + right_up
rate_top = next_down(sum_up) if error_up < 0 else sum_up

drop = -fall
sum_down = prev - fall
part_down = sum_down - prev
back_down = sum_down - part_down
left_down = prev - back_down
right_down = drop - part_down
error_down = left_down + right_down
rate_bottom = next_up(sum_down) if error_down > 0 else sum_down

# inside: every joint is in its range. From outside a joint goes no further out.
top = rate_top if inside else max(min(rate_top, high), prev)
bottom = rate_bottom if inside else min(max(rate_bottom, low), prev)
clipped = max(min(wanted, high), low) if inside else wanted
held = prev if wanted != wanted else clipped
command = min(max(held, bottom), top)

# RateLimiter in Python takes a command as it is if all joints are plainly within their rates.
rise_asked = clipped - prev
fall_asked = prev - clipped
plain = inside and wanted == wanted and rise_asked < rise and fall_asked < fall
""")
"""A step of ``RateLimiter`` and of ``slewrl_step`` in C, in float64."""

STEP_DT = Program("""
steps_asked = next_to_zero(dt / period) if dt > 0 else 0.0
steps_known = max(steps_asked, 1.0) if dt >= period else steps_asked
steps = min(steps_known, longest)
scaled = rate if steps == 1.0 else min(next_to_zero(rate * steps), largest)
""")
"""The rate of a step of ``dt`` seconds, in float64; ``longest`` is in nominal steps, ``largest`` is LARGEST."""

GUARD = Program("""
sum_up = prev + up
sum_down = prev - down
top = max(min(sum_up, high), prev)
bottom = min(max(sum_down, low), prev)
held = prev if wanted != wanted else wanted
action = min(max(held, bottom), top)

# DD-SRad's fused path: an increment of at most the guarded rate, and the range.
moved = prev + increment
fused = min(max(moved, low), high)
""")
"""The last operation of every hard layer: the clip to the guarded edges (Theorem 2), in the actions' dtype."""

BRAKES = Program("""
slower = v - min(max(v, -brakes), brakes)
most = v + faster if v >= 0 else min(v + brakes, faster)
least = v - faster if v <= 0 else max(v - brakes, -faster)
below = max(q - low, 0.0)
above = max(high - q, 0.0)
top = max(min(min(most, up), fastest_above), slower)
bottom = min(max(max(least, -down), -fastest_below), slower)
step = min(max(way, bottom), top)
reached = q + step
braked = step - min(max(step, -brakes), brakes)

# Motion takes an increment by which it stops at its target as it is, if it is within the rates and near to the last
# one. Otherwise it clips.
change = way - v
plain = way <= up and way >= -down and abs(change) <= min(faster, brakes)
clipped = min(max(min(max(way, -down), up), least), most)
""")
"""A step under acceleration limits, in whole grid units: ``fastest_above`` is FASTEST for the room ``above``."""

FASTEST = Program("""
steps = max(ceil(sqrt(2.0 * room / brakes + 0.25) - 0.5), 1.0)
fastest = floor((2.0 * room + brakes * (steps * (steps - 1.0))) / (2.0 * steps))

# The same in half the time, of Motion, for the way to a target.
near = rint(sqrt(room * (2.0 / brakes) + 0.25000000000022737))
stoppable = floor((room + (near * near - near) * (brakes / 2.0)) / near)

# The same along a line, which has the number of steps of another room, where the result stays on the line.
along = floor((room + brakes * (taken * taken - taken) / 2.0) / taken)
stays = (taken - 1.0) * brakes <= along and along <= taken * brakes

# How far full braking travels from an increment of ``speed``.
whole = floor(speed / brakes)
distance = (whole + 1.0) * speed - brakes * (whole * (whole + 1.0) / 2.0)
""")
"""The largest increment from which braking stops within ``room``, in whole grid units held in float64."""
