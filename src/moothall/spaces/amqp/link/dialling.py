"""How to reach the broker, and why that fails."""

from __future__ import annotations

import re
import ssl

import pika
from pika.credentials import ExternalCredentials
from pika.exceptions import (
    AuthenticationError,
    ConnectionClosed,
    IncompatibleProtocolError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    StreamLostError,
)

from moothall.foundation.errors import BrokerError
from moothall.spaces.amqp.amqp_options import AMQPOptions
from moothall.spaces.amqp.link.connection import LinkLost, RefusedByBroker

DIAL_S = 10.0
"""How long the broker may take to answer."""
_NOT_ALLOWED_CODE = 530
_USE_SSL_TEXT = "use_ssl=True (AMQP_USE_SSL, --use-ssl)"
_HANG_UP_TEXTS = (("ConnectionReset", "BrokenPipe"), ("ConnectionReset", "BrokenPipe", "EOF"))
"""What pika's text of a lost connection has, without TLS and with it."""
_CERT_FILE_TEXT = "cert_file= (AMQP_CERT_FILE, --cert-file)"
_CLIENT_ALERT = re.compile(r"ALERT_([A-Z_]*(?:CERTIFICATE|UNKNOWN_CA|HANDSHAKE)[A-Z_]*)")
"""OpenSSL's names of what a broker answers that does not accept the client's certificate."""
_OTHER_NAME_CODES = (62, 64)  # OpenSSL's: the certificate is for another host, another address


def connection_parameters(options: AMQPOptions, name: str) -> pika.ConnectionParameters:
    """Return pika's parameters; the broker's tools show `name`."""
    return pika.ConnectionParameters(
        host=options.hostname,
        port=options.port,
        virtual_host=options.virtual_host,
        credentials=(
            ExternalCredentials()
            if options.username is None
            else pika.PlainCredentials(options.username, options.password)
        ),
        heartbeat=options.heartbeat,
        stack_timeout=DIAL_S,
        client_properties={"connection_name": name, "product": "moothall"},
    )


def tls_context(options: AMQPOptions) -> ssl.SSLContext | None:
    """Return the TLS context, if any; the broker's certificate is always verified."""
    if not options.use_ssl:
        return None
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(
            f"ca_file {str(options.ca_file)!r} (AMQP_CA_FILE, --ca-file) cannot be read: {error}"
        ) from error
    if options.cert_file is not None:
        try:
            context.load_cert_chain(options.cert_file, options.key_file, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            files = f"cert_file {str(options.cert_file)!r} (AMQP_CERT_FILE, --cert-file)"
            if options.key_file is not None:
                files += f" with key_file {str(options.key_file)!r} (AMQP_KEY_FILE, --key-file)"
            raise BrokerError(f"{files} cannot be used: {error}") from error
    return context


def _no_password() -> str:
    """Refuse an encrypted key: OpenSSL would ask the terminal for its password."""
    raise ssl.SSLError("the private key is encrypted")


def explain(error: BaseException, options: AMQPOptions) -> str:
    """Say in one line why there is no connection, and what to do."""
    label = f"the message broker at {options.address}"
    if options.username is None and isinstance(
        error, AuthenticationError | ProbableAuthenticationError
    ):
        return (
            f"{label} refuses the client certificate as a login: enable its plugin "
            "rabbitmq_auth_mechanism_ssl and make the certificate's user (rabbitmqctl add_user), "
            "or set AMQP_USERNAME and AMQP_PASSWORD"
        )
    if isinstance(error, ProbableAuthenticationError):
        return (
            f"{label} refuses the user {options.username!r} or the password: "
            "set AMQP_USERNAME and AMQP_PASSWORD"
        )
    is_denied = isinstance(error, ProbableAccessDeniedError) or (
        isinstance(error, ConnectionClosed) and error.reply_code == _NOT_ALLOWED_CODE
    )
    if is_denied and "reached" not in str(error):  # a limit of connections or channels
        return (
            f"{label} has no virtual host {options.virtual_host!r} for the user "
            f"{options.username!r}: set AMQP_VHOST, or have it made (rabbitmqctl add_vhost, "
            "set_permissions)"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = "give its authority as ca_file= (AMQP_CA_FILE, --ca-file)"
        if error.verify_code in _OTHER_NAME_CODES:
            advice = "connect to a name that it is for, by hostname= or AMQP_HOST"
        return f"the certificate of {label} is not to be trusted ({error.verify_message}): {advice}"
    # pika wraps it, as text.
    if options.use_ssl and (alert := _CLIENT_ALERT.search(str(error))):
        alert_text = alert[1].replace("_", " ").lower()
        problem = "wants a client certificate"
        if options.cert_file is not None:
            problem = f"refuses the client certificate {str(options.cert_file)!r}"
        return f"{label} {problem} ({alert_text}): give one by {_CERT_FILE_TEXT}"
    has_hung_up = isinstance(error, ConnectionResetError | BrokenPipeError | StreamLostError)
    if has_hung_up or any(each in str(error) for each in _HANG_UP_TEXTS[options.use_ssl]):
        # A TLS port closes a plain connection without an error; what it says of a client
        # certificate may be lost as it closes the connection.
        remedy = f"try it with {_USE_SSL_TEXT}, or "
        if options.use_ssl:
            remedy = f"if it wants another client certificate, give that by {_CERT_FILE_TEXT}; "
        return f"{label} hung up before AMQP began: {remedy}check AMQP_PORT and the broker's log"
    if isinstance(error, ssl.SSLError | IncompatibleProtocolError):
        remedy = f"{'without' if options.use_ssl else 'with'} {_USE_SSL_TEXT}"
        return f"{label} does not speak AMQP 0-9-1 on that port: try it {remedy}"
    if is_denied or isinstance(error, ConnectionClosed | LinkLost):
        return f"{label} closed the connection: {getattr(error, 'reply_text', error)}"
    if isinstance(error, TimeoutError):
        return f"{label} does not answer in {DIAL_S:.0f} s: check AMQP_HOST and AMQP_PORT"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, ConnectionRefusedError):  # asyncio names the address in place of it
        reason = "Connection refused"
    return (
        f"no message broker at {options.address} ({reason or type(error).__name__}): "
        "start RabbitMQ, or set AMQP_HOST and AMQP_PORT"
    )


def refusal_text(error: RefusedByBroker, exchange: str, options: AMQPOptions) -> str:
    """Say in one line what the broker did not let a space declare."""
    label = f"the message broker at {options.address}"
    if error.has_other_settings:
        return f"{label} has something else under the name {exchange!r}: {error}"
    return f"{label} refuses to declare what the exchange {exchange!r} needs: {error}"
