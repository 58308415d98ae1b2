"""The emulated driver's streams and events."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.emulator.cuda.capture import Capture, Node, Operation
from meshgen.emulator.cuda.machine import Functions, Machine, call
from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.cuda.types import CallFailed, CUevent_flags, CUresult, CUstream_flags, CUstreamCaptureStatus


@dataclass(eq=False)
class Stream:
    """A queue of work of one device.

    Attributes:
        is_blocking: whether it and the device's legacy stream wait for each other.
        tail: the last piece of work in it.
        capture: the capture that notes what it is given; None: it is done.
    """

    handle: int
    device: int
    is_blocking: bool
    tail: Work | None = None
    capture: Capture | None = None


@dataclass(eq=False)
class Event:
    """A mark in a stream: work before it, or in a capture the nodes before it.

    Attributes:
        work: None: it was never recorded, or last in a capture.
    """

    device: int
    is_timed: bool
    work: Work | None = None
    capture: Capture | None = None
    nodes: tuple[Node, ...] = ()


class Streams:
    """All streams of a machine, and how operations get into them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._legacy: dict[int, Stream] = {}
        self.all: dict[int, Stream] = {}

    def find(self, handle: int) -> Stream:
        """The stream of a handle; 0 is the legacy stream of the current device. Raises CallFailed."""
        if int(handle):
            return self._machine.find(handle, Stream)
        return self.legacy(self._machine.device)

    def legacy(self, device: int) -> Stream:
        """The default stream of a device, which waits for its blocking streams, and they for it."""
        if device not in self._legacy:
            self._legacy[device] = Stream(0, device, is_blocking=True)
        return self._legacy[device]

    def issue(self, stream: Stream, operation: Operation) -> None:
        """Put an operation into a stream, or into the capture that it takes part in. Raises CallFailed."""
        if stream.capture:
            stream.capture.add(stream.handle, operation)
        else:
            self.append(stream, operation.make())

    def append(self, stream: Stream, work: Work, *after: Work) -> Work:
        """Put work into a stream that is not captured; it comes after other work as well."""
        stream.tail = self._machine.timeline.issue(work, [*after, *self.before_next(stream)])
        return stream.tail

    def before_next(self, stream: Stream) -> list[Work]:
        """The dependencies of the stream's next work. Raises CallFailed if a capture is among them."""
        peers = self._legacy_peers(stream)
        for peer in peers:
            if peer.capture:
                raise peer.capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return [peer.tail for peer in (stream, *peers) if peer.tail]

    def _legacy_peers(self, stream: Stream) -> list[Stream]:
        if not stream.is_blocking:
            return []
        if stream.handle:
            return [self.legacy(stream.device)]
        return [s for s in self.all.values() if s.is_blocking and s.device == stream.device]


class StreamFunctions(Functions):
    """`cuStream*` (capture is in `graphs.py`) and `cuEvent*`."""

    streams: Streams

    @call(outputs=1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> int:
        stream = Stream(0, self.machine.device, int(flags) != CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream.handle = self.machine.handle(stream)
        self.streams.all[stream.handle] = stream
        return stream.handle

    @call(outputs=1)
    def cuStreamCreate(self, Flags: int) -> int:
        return self.cuStreamCreateWithPriority(Flags, 0)[1]

    @call()
    def cuStreamDestroy(self, hStream: int) -> None:
        """Work in it is still done."""
        stream = self.machine.find(hStream, Stream)
        if stream.capture:
            raise stream.capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        del self.machine.objects[stream.handle], self.streams.all[stream.handle]

    @call()
    def cuStreamSynchronize(self, hStream: int) -> None:
        stream = self._idle_stream(hStream)
        self.machine.refuse_in_capture()
        self.machine.wait(self.streams.append(stream, Work("a synchronisation")))

    @call()
    def cuStreamQuery(self, hStream: int) -> None:
        stream = self._idle_stream(hStream)
        self.machine.refuse_in_capture()
        if not self.machine.timeline.poll(stream.tail):
            raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)

    @call()
    def cuCtxSynchronize(self) -> None:
        device = self.machine.device
        for capture in self.machine.captures:
            raise capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        for stream in (self.streams.legacy(device), *self.streams.all.values()):
            if stream.device == device:
                self.machine.wait(self.streams.append(stream, Work("a synchronisation")))

    @call()
    def cuStreamWaitEvent(self, hStream: int, hEvent: int, Flags: int) -> None:
        """A stream that waits for an event of a capture takes part in it."""
        stream, event = self.streams.find(hStream), self.machine.find(hEvent, Event)
        if event.capture:
            self._wait_in_capture(stream, event, event.capture)
        elif stream.capture and event.work:
            raise stream.capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
        elif event.work:  # waiting for an event that was never recorded has no effect, as on a GPU
            self.streams.append(stream, Work("a wait for an event"), event.work)

    def _wait_in_capture(self, stream: Stream, event: Event, capture: Capture) -> None:
        if capture not in self.machine.captures:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
        capture.require_valid()
        if stream.capture not in (None, capture):
            raise capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_MERGE)
        if not stream.handle:
            raise capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        capture.join(stream.handle, event.nodes)
        stream.capture = capture

    @call(outputs=1)
    def cuEventCreate(self, Flags: int) -> int:
        timed = not int(Flags) & CUevent_flags.CU_EVENT_DISABLE_TIMING
        return self.machine.handle(Event(self.machine.device, timed))

    @call()
    def cuEventDestroy(self, hEvent: int) -> None:
        self.machine.find(hEvent, Event)
        del self.machine.objects[int(hEvent)]

    @call()
    def cuEventRecord(self, hEvent: int, hStream: int) -> None:
        event, stream = self.machine.find(hEvent, Event), self.streams.find(hStream)
        if event.device != stream.device:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if stream.capture:
            stream.capture.require_valid()
            event.work, event.capture, event.nodes = None, stream.capture, stream.capture.ends[stream.handle]
        else:
            event.work, event.capture = self.streams.append(stream, Work("the record of an event")), None

    @call()
    def cuEventQuery(self, hEvent: int) -> None:
        event = self._event_outside_capture(hEvent)
        if not self.machine.timeline.poll(event.work):
            raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)

    @call()
    def cuEventSynchronize(self, hEvent: int) -> None:
        self.machine.wait(self._event_outside_capture(hEvent).work)

    @call(outputs=1)
    def cuEventElapsedTime(self, hStart: int, hEnd: int) -> float:
        """Emulated work takes no time: always 0 ms."""
        for handle in (hStart, hEnd):
            event = self._event_outside_capture(handle)
            if not event.is_timed or not event.work:
                raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
            if not event.work.done:
                raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)
        return 0.0

    @call(outputs=1)
    def cuStreamIsCapturing(self, hStream: int) -> int:
        capture = self.streams.find(hStream).capture
        if capture is None:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        if capture.is_invalid:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_INVALIDATED
        return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE

    def _idle_stream(self, handle: int) -> Stream:
        """A stream that the host may wait for. Raises CallFailed: it is captured."""
        stream = self.streams.find(handle)
        if stream.capture:
            raise stream.capture.spoil(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return stream

    def _event_outside_capture(self, handle: int) -> Event:
        event = self.machine.find(handle, Event)
        if event.capture:
            event.capture.is_invalid = True
            raise CallFailed(CUresult.CUDA_ERROR_CAPTURED_EVENT)
        self.machine.refuse_in_capture()
        return event
