// Search asks for a Worker, which browsers refuse to pages opened from the disk. There, a hidden
// frame does its work; on a server nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.document.write("<body></body>")
      this.inside.document.close()
      // What a worker has and a frame has not: one script after the other, and a way back.
      this.inside.importScripts = (...urls) => urls.reduce(
        (before, each) => before.then(() => this.load(each)), Promise.resolve())
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}))
      this.ready = this.load(new URL(url, location.href).href)
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        Object.assign(script, {src: url, onload: resolve, onerror: reject})
        this.inside.document.body.appendChild(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})))
    }
    terminate() {}
  }
}
