"""Where the runs of a study are executed: processes of this machine, or a Dask cluster.

Both are executors of :mod:`concurrent.futures`. A job is one whole run in one thread; it leaves
everything in the run's folder, so nothing is lost with a process.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from fedgrain.config.config import Config
from fedgrain.errors import StudyError
from fedgrain.files import written_whole
from fedgrain.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from fedgrain.runs.tracking import Tracking

ATTEMPTS = 3  # tries of a job whose process is killed
P = ParamSpec("P")
T = TypeVar("T")


def run_job(
    config: Config, folder: str, base: str | None, tracking: Tracking | None = None
) -> dict[str, Any]:
    """Run or resume one run of a study, and return the content of its ``result.json``."""
    from fedgrain.runs.run import run

    if base is not None:
        start_from(RunFolder(base), RunFolder(folder), config)
    callbacks = [] if tracking is None else [tracking.callback(config, folder)]
    return run(
        config, folder, callbacks, workers=1
    ).values  # a study goes in parallel over whole runs


def start_from(base: RunFolder, place: RunFolder, config: Config) -> None:
    """Start a two-stage run where the finished run of its first stage ended.

    Its own first stage would give the same bits: all random numbers derive from the seed and the
    round. The state is copied last: without it a run starts from the beginning.
    """
    with place.locked():
        place.check(config)
        if place.finished(config) or not (base.ended and base.state.exists()):
            return
        base.check_arithmetic()
        place.claim(config, base.data_seen())
        if place.state.exists():
            return
        for source, target in ((base.metrics, place.metrics), (base.state, place.state)):
            with written_whole(target) as aside:
                shutil.copyfile(source, aside)


class Workers(Executor):
    """A number of processes that take one job at a time.

    If a process is killed (for example, out of memory), only its own job is affected, and a new
    process resumes it. All end with the process that started them, however that one ends.
    """

    def __init__(self, jobs: int) -> None:
        self.at_a_time = jobs
        self._lifeline, self._held = multiprocessing.get_context("spawn").Pipe(duplex=False)
        self._threads = ThreadPoolExecutor(jobs, thread_name_prefix="study")
        self._own = threading.local()
        self._processes: list[_Process] = []

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a picklable function in a process that is free."""
        return self._threads.submit(self._in_process, fn, *args, **kwargs)

    def _in_process(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(ATTEMPTS):
            try:
                return self._once(fn, *args, **kwargs)
            except EOFError:
                self._own.process = None
                if self._held.closed:  # the job is no longer wanted
                    break
        raise StudyError(
            f"its process was killed in each of {ATTEMPTS} attempts, perhaps for lack of memory; "
            "give the same command again with fewer --jobs"
        )

    def _once(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        process: _Process | None = getattr(self._own, "process", None)
        if process is None:
            process = _Process(self._lifeline)
            self._own.process = process
            self._processes.append(process)
        answer: T = process.call(fn, *args, **kwargs)
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: after their jobs, or at once without ``wait``."""
        if not wait:
            self._held.close()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        for process in self._processes:
            process.end(wait)
        if wait:
            self._held.close()
        self._lifeline.close()


class _Process:
    """A process that calls the functions it receives over a pipe.

    Python's own pools need semaphores in ``/dev/shm``, which some machines mount read-only.
    """

    def __init__(self, lifeline: Connection) -> None:
        context = multiprocessing.get_context("spawn")
        self._calls, theirs = context.Pipe()
        self._process = context.Process(target=_answer, args=(theirs, lifeline), daemon=False)
        with _without_interrupts():  # which the process inherits
            self._process.start()
        theirs.close()

    def call(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in the process and return or raise its outcome; EOFError if it died."""
        try:
            self._calls.send((fn, args, kwargs))
            error, answer, said = self._calls.recv()
        except (EOFError, OSError):
            self._process.join()
            raise EOFError from None
        for text in said:  # the same words of several runs are shown once
            warnings.warn(text, stacklevel=1)
        if error is not None:
            raise error
        return answer

    def end(self, wait: bool) -> None:
        """End the process after its current call."""
        if wait:
            self._calls.close()
            self._process.join()


def _answer(calls: Connection, lifeline: Connection) -> None:
    """Run as a process of a study: answer calls until the pipe closes."""
    _follow(lifeline)
    while True:
        try:
            fn, args, kwargs = calls.recv()
        except (EOFError, OSError):
            return
        answer, problem = None, None
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UserWarning)
            try:
                answer = fn(*args, **kwargs)
            except Exception as error:
                problem = error
        told = [str(one.message) for one in said if one.category is UserWarning]
        try:
            calls.send((problem, answer, told))
        except OSError:
            return
        except Exception as error:  # what cannot be pickled
            calls.send((StudyError(f"{type(error).__name__}: {error}"), None, told))


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in this thread and in the processes it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow(lifeline: Connection) -> None:
    """In a worker: exit when the parent is gone, and leave Ctrl-C to the parent."""
    from fedgrain.engines.allocator import keep_freed_memory

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    keep_freed_memory()

    def wait() -> None:
        try:
            lifeline.recv()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def local_workers(jobs: int) -> Iterator[Executor]:
    """Provide an executor of processes; an exception ends their jobs at once."""
    workers = Workers(jobs)
    try:
        yield workers
    except BaseException:
        workers.shutdown(wait=False, cancel_futures=True)
        raise
    workers.shutdown()


@contextmanager
def dask_workers(address: str) -> Iterator[Executor]:
    """Provide the executor of a Dask cluster that sees the same files."""
    try:
        from distributed import Client
    except ImportError:
        raise StudyError("--dask needs the extra: pip install 'fedgrain[dask]'") from None
    try:
        client = Client(address, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise StudyError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        executor: Executor = client.get_executor(pure=False)  # type: ignore[no-untyped-call]
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise
        executor.shutdown()


def absolute(folder: Path) -> str:
    """Return the absolute path of a folder, for workers with another working directory."""
    return str(folder.resolve())
