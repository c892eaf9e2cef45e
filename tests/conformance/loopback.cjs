// Preloaded into the suite: its own servers listen on the loopback address only.
//
// They name no address, which means all interfaces, and nothing here is meant for the network.
// They also ask for their port at once, so they must not wait: an address that is given to
// `listen` is looked up first, even if it is one already. So this steps in where Node binds.

'use strict';

const net = require('node:net');

const LOOPBACK = '127.0.0.1';
const IPV4 = 4;
const EVERYWHERE = [null, undefined, '0.0.0.0', '::'];

const bind = net.Server.prototype._listen2;
if (typeof bind !== 'function') {
    throw new Error('this Node binds elsewhere: the servers of the suite would be open to all');
}
net.Server.prototype._listen2 = function (address, port, type, ...rest) {
    // Paths and descriptors have no port.
    const isPort = typeof port === 'number' && port >= 0;
    if (isPort && EVERYWHERE.includes(address)) {
        return bind.call(this, LOOPBACK, port, IPV4, ...rest);
    }
    return bind.call(this, address, port, type, ...rest);
};
