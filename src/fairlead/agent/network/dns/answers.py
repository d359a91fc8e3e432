"""From a question on the wire to an answer on the wire: what is ours from the zone, the rest from upstream."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from fairlead.agent.network.dns.records import TTL_SECONDS, Answer, Record, Zone
from fairlead.agent.network.dns.upstream import NoAnswer, Upstream
from fairlead.runtime.clock import now

#: What goes through the networks of the world in one piece (DNS flag day 2020); more only over TCP.
LARGEST_DATAGRAM: Final = 1232
SMALLEST_DATAGRAM: Final = 512
LARGEST_MESSAGE: Final = 65535
#: Aliases are followed so far.
_MOST_ALIASES: Final = 8

log = logging.getLogger(__name__)


class BadQuestion(Exception):
    """It cannot be read, and is not answered."""


class Resolver:
    def __init__(self, domain: str, zone: Zone, upstream: Upstream) -> None:
        self._domain, self._zone, self._upstream = domain, zone, upstream

    async def resolve(self, wire: bytes, *, over_tcp: bool) -> bytes:
        query = _read(wire)
        largest = LARGEST_MESSAGE if over_tcp else _datagram_size(query)
        if query.opcode() != dns.opcode.QUERY:
            return _refusal(query, dns.rcode.NOTIMP)
        if len(query.question) != 1:
            return _refusal(query, dns.rcode.FORMERR)
        question = query.question[0]
        if question.rdclass != dns.rdataclass.IN:
            return _refusal(query, dns.rcode.REFUSED)
        name = _text(question.name)
        answer = self._zone.answer(name, dns.rdatatype.to_text(question.rdtype))
        if answer is None:
            try:
                return await self._upstream.ask(wire, over_tcp=over_tcp)
            except NoAnswer:
                return _refusal(query, dns.rcode.SERVFAIL)
        try:
            return (await self._answered(query, answer)).to_wire(max_size=largest, prefer_truncation=True)
        except dns.exception.DNSException as error:  # an object holds what no record can
            log.warning("%s: %s", name, error)
            return _refusal(query, dns.rcode.SERVFAIL)

    async def _answered(self, query: dns.message.Message, answer: Answer) -> dns.message.Message:
        question = query.question[0]
        response = dns.message.make_response(query, recursion_available=True, our_payload=LARGEST_DATAGRAM)
        response.flags |= dns.flags.AA
        if not answer.exists:
            response.set_rcode(dns.rcode.NXDOMAIN)
        response.answer = _rrsets(answer.records, question.name)
        response.additional = _rrsets(answer.additional)
        if answer.alias and question.rdtype != dns.rdatatype.CNAME:
            await self._follow(answer.alias, question.rdtype, response)
        if not response.answer:
            response.authority = [self._start_of_authority()]
        return response

    async def _follow(self, alias: str, type_: dns.rdatatype.RdataType, response: dns.message.Message) -> None:
        """Add what the alias leads to, for clients that would not ask once more."""
        for _ in range(_MOST_ALIASES):
            found = self._zone.answer(alias, dns.rdatatype.to_text(type_))
            if found is None:
                response.answer += await self._foreign(alias, type_)
                return
            response.answer += _rrsets(found.records)
            if not found.alias:
                return
            alias = found.alias

    async def _foreign(self, name: str, type_: dns.rdatatype.RdataType) -> list[dns.rrset.RRset]:
        try:
            wire = dns.message.make_query(name, type_, use_edns=0, payload=LARGEST_DATAGRAM).to_wire()
            return dns.message.from_wire(await self._upstream.ask(wire, over_tcp=False)).answer
        except (NoAnswer, dns.exception.DNSException):
            return []

    def _start_of_authority(self) -> dns.rrset.RRset:
        zone = f"{self._domain}."
        text = f"ns.dns.{zone} hostmaster.{zone} {int(now())} 7200 1800 86400 {TTL_SECONDS}"
        return dns.rrset.from_text(zone, TTL_SECONDS, "IN", "SOA", text)


def _read(wire: bytes) -> dns.message.Message:
    try:
        query = dns.message.from_wire(wire)
    except (dns.exception.DNSException, ValueError) as error:
        raise BadQuestion from error
    if query.flags & dns.flags.QR:
        raise BadQuestion  # an answer: two servers must not begin to talk to each other
    return query


def _datagram_size(query: dns.message.Message) -> int:
    if query.edns < 0:
        return SMALLEST_DATAGRAM
    return max(SMALLEST_DATAGRAM, min(query.payload, LARGEST_DATAGRAM))


def _refusal(query: dns.message.Message, code: dns.rcode.Rcode) -> bytes:
    response = dns.message.make_response(query, recursion_available=True)
    response.set_rcode(code)
    return response.to_wire()


def _text(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).lower()


def _rrsets(records: Iterable[Record], asked: dns.name.Name | None = None) -> list[dns.rrset.RRset]:
    """Records of one name and type together; `asked` is how the client wrote the first one's name."""
    found: dict[tuple[str, str], dns.rrset.RRset] = {}
    for record in records:
        rrset = found.get((record.name, record.type))
        if rrset is None:
            name = asked if asked is not None and _text(asked) == record.name else dns.name.from_text(record.name)
            rrset = dns.rrset.RRset(name, dns.rdataclass.IN, dns.rdatatype.from_text(record.type))
            rrset.update_ttl(TTL_SECONDS)
            found[record.name, record.type] = rrset
        rrset.add(_rdata(record.type, record.value))
    return list(found.values())


@lru_cache(maxsize=4096)
def _rdata(type_: str, value: str) -> dns.rdata.Rdata:
    return dns.rdata.from_text("IN", type_, value)
