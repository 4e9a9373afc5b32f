// Sends the forms of a page without leaving it: <form data-postern method="post" action="…">. What is wrong is shown at the
// fields, and what the form asks of a page (a token, proof of work) is fetched and answered. Without this script the form is
// a form like any other. The server takes comments and indentation out (kit.ts).

const states = new WeakMap();
let ids = 0;

/** Takes over all forms with `data-postern` below `root`, those that come later included. */
export function start(root = document) {
  root.addEventListener('submit', (event) => {
    const form = event.target;
    // Whoever has handled it (htmx, the page's own script) is left alone.
    if (event.defaultPrevented || !isOurs(form)) return;
    event.preventDefault();
    void send(form, event.submitter);
  });
  root.addEventListener('focusin', ({ target: { form } }) => {
    if (isOurs(form)) void prepare(form, stateOf(form));
  });
  root.addEventListener('input', ({ target: { form, name } }) => {
    if (!isOurs(form)) return;
    const state = stateOf(form);
    state.key = undefined;
    clear(state, ({ control }) => control?.name === name);
  });
}

/** Sends the form and shows what comes of it. Resolves to the server's answer; undefined where none came, or one is awaited. */
export async function send(form, submitter) {
  const state = stateOf(form);
  if (state.busy) return undefined;
  state.busy = true;
  clear(state, () => true);
  const data = new FormData(form, submitter);
  const buttons = [...form.elements].filter(({ type, disabled }) => type === 'submit' && !disabled);
  for (const button of buttons) button.disabled = true;
  form.setAttribute('aria-busy', true);
  form.dataset.postern = 'sending';
  let answer = await attempt(form, state, data);
  // The page stood open for longer than its token is good for.
  if (codeOf(answer) === 'CHALLENGE_FAILED' && state.page?.salt) {
    forget(state);
    answer = await attempt(form, state, data);
  }
  for (const button of buttons) button.disabled = false;
  form.removeAttribute('aria-busy');
  state.busy = false;
  finish(form, state, answer);
  return answer;
}

/**
 * What goes into the field `_challenge` of a form that is sent by other means; resolves once the page is old enough. `name` is
 * the field `form` of `/v1/{domain}/send`. Rejects where the server cannot be reached.
 */
export async function challenge(action, name = '') {
  const page = await fetchPage(new URL(action, document.baseURI), name);
  await sleep(page.due - Date.now());
  return page.answer;
}

async function attempt(form, state, data) {
  const page = await prepare(form, state);
  if (page) {
    // Sooner than people write, it would look like a robot's.
    await sleep(page.due - Date.now());
    const answer = await page.answer;
    if (answer) data.set('_challenge', answer);
  }
  // The same again after the network broke is the same submission.
  state.key ??= `${Date.now()}-${Math.random()}`;
  return post(form, data, state.key);
}

function finish(form, state, answer) {
  const isSent = answer?.success;
  const errors = answer?.errors ?? [];
  // Refused for its fields, it has not used up its token; where nobody knows what became of it, it is sent again as it was.
  if (errors.some(({ field }) => field)) state.key = undefined;
  else if (isSent || answer?.code < 500) forget(state);
  if (isSent) HTMLFormElement.prototype.reset.call(form);
  else for (const bar of form.querySelectorAll('progress')) bar.value = 0;
  form.dataset.postern = isSent ? 'sent' : 'failed';
  const event = new CustomEvent(isSent ? 'postern:success' : 'postern:error', {
    bubbles: true,
    cancelable: true,
    detail: answer,
  });
  if (!form.dispatchEvent(event)) return;
  if (isSent && form.hasAttribute('data-postern-redirect')) return location.assign(answer.next);
  const rest = errors.filter((error) => !showAt(form, state, error)).map(({ message }) => message);
  if (rest.length > 0 || errors.length === 0) {
    const status = note(state, form.querySelector('[data-postern-status]'));
    if (!status.isConnected) form.append(status);
    status.setAttribute('role', isSent ? 'status' : 'alert');
    status.tabIndex = -1;
    status.textContent = rest.join(' ') || answer?.message || state.page?.unreachable || UNREACHABLE;
    state.first ??= status;
  }
  state.first.focus();
}

const UNREACHABLE = 'The message could not be sent. Please check your connection and try again.';

function codeOf(answer) {
  return answer?.errors?.[0].code;
}

/** Shows what is wrong at the field that it is about; false where there is none that can be seen. */
function showAt(form, state, { field, message }) {
  const found = field && (form.elements.namedItem(field) ?? form.elements.namedItem(`${field}[]`));
  const isGroup = found instanceof RadioNodeList;
  const control = isGroup ? found[0] : found;
  if (!control || control.type === 'hidden') return false;
  const text = note(state, form.querySelector(`[data-postern-error="${CSS.escape(field)}"]`), control);
  const group = isGroup && control.closest('fieldset');
  if (!text.isConnected && group) group.append(text);
  else if (!text.isConnected) (control.closest('label') ?? control).after(text);
  text.textContent = message;
  text.id ||= `postern-${++ids}`;
  control.setAttribute('aria-invalid', true);
  describe(control, [...describers(control), text.id]);
  state.first ??= control;
  return true;
}

/** An element for a text: the page's own, or a new one. */
function note(state, own, control) {
  const element = own ?? document.createElement('p');
  if (!own) element.className = 'postern-note';
  state.notes.push({ control, element, own });
  return element;
}

/** Takes the texts back that are meant. */
function clear(state, isMeant) {
  state.first = undefined;
  state.notes = state.notes.filter((one) => {
    if (!isMeant(one)) return true;
    const { control, element, own } = one;
    if (own) own.textContent = '';
    else element.remove();
    if (control) {
      control.removeAttribute('aria-invalid');
      describe(
        control,
        describers(control).filter((id) => id !== element.id),
      );
    }
    return false;
  });
}

function describers(control) {
  return control.getAttribute('aria-describedby')?.split(' ') ?? [];
}

function describe(control, ids) {
  if (ids.length > 0) control.setAttribute('aria-describedby', ids.join(' '));
  else control.removeAttribute('aria-describedby');
}

function isOurs(form) {
  return form instanceof HTMLFormElement && form.hasAttribute('data-postern');
}

function stateOf(form) {
  if (!states.has(form)) states.set(form, { notes: [] });
  return states.get(form);
}

/** Forgets what was fetched, and what the widgets of captchas answered: each is good once. */
function forget(state) {
  state.fetched = state.key = undefined;
  for (const name of ['turnstile', 'hcaptcha', 'grecaptcha']) {
    try {
      window[name]?.reset();
    } catch {
      // The page shows none.
    }
  }
}

/** Fetches what the form asks of a page; resolves to undefined where the server is out of reach: it then says what is missing. */
function prepare(form, state) {
  const name = form.elements.namedItem('form')?.value ?? '';
  state.fetched ??= fetchPage(addressOf(form), name).then(
    (page) => (state.page = page),
    () => (state.fetched = undefined),
  );
  return state.fetched;
}

async function fetchPage({ origin, pathname }, name) {
  const query = new URLSearchParams({ form: pathname, name });
  const response = await fetch(`${origin}/challenge?${query}`, { headers: language() });
  if (!response.ok) throw new Error('There is no challenge.');
  const page = await response.json();
  return { ...page, due: Date.now() + page.minimum_age * 1000, answer: page.salt ? solve(page) : page.token };
}

/** In the page's language, where it names one. */
function language() {
  const { lang } = document.documentElement;
  return lang ? { 'Accept-Language': lang } : {};
}

// A form may have a field called `action`.
function addressOf(form) {
  return new URL(form.getAttribute('action') ?? '', document.baseURI);
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resolves to what the server answers, undefined where it cannot be reached. Not by fetch(), which tells nothing of an upload. */
function post(form, data, key) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open('POST', addressOf(form));
    request.responseType = 'json';
    const headers = { Accept: 'application/json', 'Idempotency-Key': key, ...language() };
    for (const name in headers) request.setRequestHeader(name, headers[name]);
    const bar = form.querySelector('progress');
    if (bar) {
      request.upload.onprogress = ({ loaded, total }) => {
        bar.max = total;
        bar.value = loaded;
      };
    }
    request.onloadend = () => resolve(request.response ?? undefined);
    request.send(data);
  });
}

/** The number that the server hid in the challenge, as ALTCHA's version 1 sends it: sought by a worker, else a little at a time. */
async function solve({ algorithm, challenge, salt, signature, maxnumber }) {
  const number = (await findAside([salt, challenge, 0, maxnumber])) ?? (await findHere(salt, challenge, maxnumber));
  return btoa(JSON.stringify({ algorithm, challenge, number, salt, signature }));
}

/** Resolves to undefined where the page's policy allows no worker. */
function findAside(question) {
  return new Promise((resolve) => {
    try {
      const source = new Blob([`onmessage=({data})=>postMessage((${find.toString()})(...data))`], {
        type: 'text/javascript',
      });
      const worker = new Worker(URL.createObjectURL(source));
      worker.onmessage = ({ data }) => {
        worker.terminate();
        resolve(data);
      };
      worker.onerror = () => resolve();
      worker.postMessage(question);
    } catch {
      resolve();
    }
  });
}

async function findHere(salt, challenge, maxnumber) {
  for (let from = 0; from <= maxnumber; from += 500) {
    const number = find(salt, challenge, from, from + 499);
    if (number !== undefined) return number;
    await sleep();
  }
}

// SHA-256 (FIPS 180-4) of our own: the browser's takes longer for a text this short, and pages without TLS have none. It is
// sent to the worker as text, so that it uses nothing from outside.
function find(salt, challenge, from, to) {
  const start = [];
  const roots = [];
  for (let n = 2; roots.length < 64; n++) {
    let divisor = 2;
    while (n % divisor) divisor++;
    if (divisor < n) continue;
    if (start.length < 8) start.push((n ** 0.5 * 2 ** 32) | 0);
    roots.push((Math.cbrt(n) * 2 ** 32) | 0);
  }
  const words = new Int32Array(64);
  const whole = salt.length & ~63;
  const hashed = digest(start, salt.slice(0, whole));
  const wanted = parseInt(challenge.slice(0, 8), 16) | 0;
  for (let number = from; number <= to; number++) {
    const text = `${salt.slice(whole)}${number}\x80`;
    const bits = (whole + text.length - 1) * 8;
    const zeros = '\0'.repeat(6 + ((56 - text.length) & 63));
    if (digest(hashed, text + zeros + String.fromCharCode(bits >> 8, bits & 255))[0] === wanted) return number;
  }

  function digest(state, text) {
    for (let at = 0; at < text.length; at += 64) {
      for (let i = 0; i < 64; i++) {
        if (i < 16) {
          for (let j = 0; j < 4; j++) words[i] = (words[i] << 8) | text.charCodeAt(at + i * 4 + j);
        } else {
          const x = words[i - 15];
          const y = words[i - 2];
          const mixed = (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
          words[i] = words[i - 16] + words[i - 7] + mixed;
        }
      }
      let [a, b, c, d, e, f, g, h] = state;
      for (let i = 0; i < 64; i++) {
        const x = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + roots[i] + words[i];
        const y = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g;
        g = f;
        f = e;
        e = (d + x) | 0;
        d = c;
        c = b;
        b = a;
        a = (x + y) | 0;
      }
      state = [a, b, c, d, e, f, g, h].map((word, i) => (word + state[i]) | 0);
    }
    return state;
  }

  function turn(word, by) {
    return (word >>> by) | (word << (32 - by));
  }
}
