"""One run of the real Codex as wrap.py does it, in a process of its own: a subreaper is one for good. No test module.

Standard input: {"codex": […], "flags": […], "prompt", "kind", "bridge": {…} | null, "cwd", "timeout"}.
Standard output: the answer.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import wrap          # noqa: E402
import wrap_kill     # noqa: E402
import wrap_process  # noqa: E402


def main():
    job = json.load(sys.stdin)
    bridge = wrap.Bridge(**job['bridge']) if job['bridge'] else None
    argv = wrap.build_codex_command(job['prompt'], job['kind'], job['codex'], bridge, job['cwd'])
    options = wrap.Options(gentle_s=wrap_process.GENTLE_S, subreaper=wrap_kill.adopt_orphans(), cwd=job['cwd'],
                           stdin=wrap.prompt_input(argv, job['prompt']))
    answer = wrap.run_events(argv + job['flags'], job['timeout'], options=options)
    print(json.dumps({**answer._asdict(), 'argv': argv}))


if __name__ == '__main__':
    main()
