// Preloaded into the suite so that its servers listen only on loopback.
//
// They call `listen` without an address, which binds all interfaces, and read their port synchronously. Passing
// an address to `listen` would make it asynchronous, because Node resolves even IP addresses. So this file
// patches the internal function that binds.

'use strict';

const net = require('node:net');

const LOOPBACK = '127.0.0.1';
const IPV4 = 4;
const EVERYWHERE = [null, undefined, '0.0.0.0', '::'];

const bind = net.Server.prototype._listen2;
if (typeof bind !== 'function') {
    throw new Error("unsupported Node version: cannot restrict the suite's servers to loopback");
}
net.Server.prototype._listen2 = function (address, port, type, ...rest) {
    // Sockets at paths and inherited descriptors have no port.
    const isPort = typeof port === 'number' && port >= 0;
    if (isPort && EVERYWHERE.includes(address)) {
        return bind.call(this, LOOPBACK, port, IPV4, ...rest);
    }
    return bind.call(this, address, port, type, ...rest);
};
