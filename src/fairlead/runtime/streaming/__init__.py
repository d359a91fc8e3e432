"""How clients reach into containers: SPDY/3.1, WebSocket, and what kubectl and the libraries say over them."""
